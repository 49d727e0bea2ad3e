#include "planner/offsets/search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/common/budget.h"
#include "planner/common/pins.h"
#include "planner/common/splitmix64.h"
#include "planner/offsets/pins.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/part_search.h"
#include "planner/offsets/search/slots.h"
#include "planner/offsets/search/threads.h"

namespace edgemem {

namespace {

using offset_search::Part;
using offset_search::PartSearch;

constexpr std::chrono::nanoseconds kPerPart{1000};  // to give back its memory
constexpr std::int32_t kMany = 256;                 // pieces, for whose first plan there may be no time

// What no search is needed for.
SearchResult end_to_end(const Records& records) {
  SearchResult result;
  IntervalSet occupied = reserved_set(records);
  std::vector<std::int64_t> padded(records.count());
  for (std::size_t i = 0; i < records.count(); ++i) {
    padded[i] = records.padded(i);
    if (records.is_pinned(i)) occupied.insert({records.pinned[i], records.pinned[i] + padded[i]});
  }
  result.offsets = end_to_end_around(padded, records.pinned, occupied);
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] == 0) continue;
    result.size = std::max(result.size, result.offsets[i] + records.size[i]);
    result.bound = std::max(result.bound, records.size[i] + (records.is_pinned(i) ? records.pinned[i] : 0));
  }
  result.stopped = result.optimal() ? Stop::kBound : Stop::kTime;
  return result;
}

// What is found for the parts, gathered in bytes.
class Gathered {
 public:
  explicit Gathered(const offset_search::Split& whole)
      : offsets(whole.offsets), size(whole.size), parts_(whole.parts), done_(whole.parts.size(), 0) {}

  std::vector<std::int64_t> offsets;  // bytes
  std::int64_t size;                  // bytes

  // Another plan of a part, which counts if it is the first.
  void add(std::size_t k, const std::vector<std::int64_t>& units, std::int64_t bytes) {
    if (done_[k] != 0) return;
    const Part& p = parts_[k];
    for (std::size_t i = 0; i < p.record.size(); ++i) {
      if (p.record[i] != Part::kNoRecord) offsets[p.record[i]] = units[i] * p.unit;
    }
    size = std::max(size, bytes);
    done_[k] = 1;
  }

  // For those of which nothing was found in time.
  void add_rest() {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      if (done_[k] != 0) continue;
      const std::vector<std::int64_t> units = offset_search::end_to_end(parts_[k]);
      add(k, units, offset_search::peak(parts_[k], units));
    }
  }

 private:
  const std::vector<Part>& parts_;
  std::vector<char> done_;
};

// The search in one thread, the `place`th of several.
SearchResult search_once(const Records& records, const offset_search::Split& whole, std::uint64_t seed, int place,
                         Budget& budget) {
  struct Turn {
    std::size_t k;
    PartSearch part;
  };
  const std::vector<Part>& pieces = whole.parts;
  const std::int64_t load = std::max(whole.size, pieces.front().bound);
  Gathered found(whole);
  SearchResult result;
  result.bound = load;
  std::vector<std::vector<std::int64_t>> quick(budget.timed() ? pieces.size() : 0);  // of large parts
  std::list<Turn> turns;  // of the parts that decide the size
  try {
    for (std::size_t k = 0; k < quick.size(); ++k) {
      if (pieces[k].count() >= kMany && pieces[k].pinned.empty()) quick[k] = offset_search::hand_on(pieces[k], budget);
    }
    std::priority_queue<std::tuple<std::int64_t, std::ptrdiff_t, PartSearch*>> worst_first;
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      budget.pass(pieces[k].count());
      PartSearch& part = turns.emplace_back(k, PartSearch(records, pieces[k], seed, place)).part;
      part.start(load, budget);
      if (part.size() > load) {
        worst_first.emplace(part.size(), -static_cast<std::ptrdiff_t>(k), &part);
      } else {
        found.add(k, part.offsets(), part.size());
        turns.pop_back();
      }
    }
    // The part that decides the size has the turn, the first of equals.
    while (!worst_first.empty() && !budget.out_of_time() && !budget.out_of_work()) {
      const auto [size, order, part] = worst_first.top();
      if (size <= result.bound) break;
      budget.pass();
      worst_first.pop();
      part->improve(result.bound, budget);
      result.bound = std::max(result.bound, part->bound());
      worst_first.emplace(part->size(), order, part);
    }
  } catch (const OutOfTime&) {
    // The parts have the best that they found.
  }
  for (const Turn& turn : turns) {
    const bool timed = turn.k < quick.size() && !quick[turn.k].empty();
    if (timed && offset_search::peak(pieces[turn.k], quick[turn.k]) < turn.part.size()) continue;
    found.add(turn.k, turn.part.offsets(), turn.part.size());
  }
  for (std::size_t k = 0; k < quick.size(); ++k) {
    if (!quick[k].empty()) found.add(k, quick[k], offset_search::peak(pieces[k], quick[k]));
  }
  found.add_rest();
  result.offsets = std::move(found.offsets);
  result.size = found.size;
  if (result.optimal()) {
    result.stopped = result.bound == load ? Stop::kBound : Stop::kProof;
  } else {
    result.stopped = budget.out_of_time() ? Stop::kTime : Stop::kWork;
  }
  result.work = budget.spent();
  return result;
}

// The first thread searches with the caller's seed, the others with those that SplitMix64 makes of it.
std::uint64_t seed_of(std::uint64_t seed, int thread) {
  if (thread == 0) return seed;
  return splitmix64(seed + static_cast<std::uint64_t>(thread - 1) * 0x9e3779b97f4a7c15U);
}

// Each thread is a search of its own. One that has an optimal plan stops those that have worked for longer, and only
// those, so that of all optimal plans the one that took the least work is always found, on a quick machine and on a
// slow one. If there is none, all end at the work limit.
SearchResult search_portfolio(const Records& records, const offset_search::Split& whole, const SearchLimits& limits,
                              const Budget& budget) {
  std::vector<SearchResult> results(static_cast<std::size_t>(limits.threads));
  std::atomic<std::int64_t> least = std::numeric_limits<std::int64_t>::max();  // work of an optimal plan
  offset_search::side_by_side(limits.threads, [&](int k) {
    Budget mine = budget;
    mine.stop_beyond(&least);
    if (k > 0) mine.poll({});
    try {
      SearchResult& mine_found = results[static_cast<std::size_t>(k)];
      mine_found = search_once(records, whole, seed_of(limits.seed, k), k, mine);
      std::int64_t known = least.load();
      while (mine_found.optimal() && mine_found.work < known && !least.compare_exchange_weak(known, mine_found.work)) {
      }
    } catch (const std::bad_alloc&) {
      throw;  // tried again
    } catch (...) {
      least = -1;  // stops the others
      throw;
    }
  });
  const auto rank = [](const SearchResult& r) { return std::tuple(r.size, !r.optimal(), r.optimal() ? r.work : 0); };
  SearchResult& best = *std::min_element(results.begin(), results.end(),
                                         [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  for (const SearchResult& r : results) {
    if (r.bound <= best.bound) continue;
    best.bound = r.bound;
    if (best.optimal()) best.stopped = Stop::kProof;
  }
  return std::move(best);
}

}  // namespace

SearchResult search_offsets(const Records& records, const SearchLimits& limits) {
  if (limits.threads < 1) throw std::invalid_argument("fewer than one thread");
  Budget budget(limits.work, limits.seconds, records.count());
  budget.poll(limits.poll);
  check(records);
  offset_search::Split whole;
  try {
    whole = offset_search::split(records, budget);
  } catch (const OutOfTime&) {
    return end_to_end(records);
  }
  if (whole.parts.empty()) {
    SearchResult stacked;
    stacked.size = stacked.bound = whole.size;
    stacked.offsets = std::move(whole.offsets);
    return stacked;
  }
  budget.keep_back(kPerPart * static_cast<std::int64_t>(whole.parts.size()));
  if (limits.threads == 1) return search_once(records, whole, limits.seed, 0, budget);
  return search_portfolio(records, whole, limits, budget);
}

}  // namespace edgemem
