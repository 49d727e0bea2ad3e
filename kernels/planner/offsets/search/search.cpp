#include "planner/offsets/search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <new>
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
using offset_search::Split;

constexpr std::chrono::nanoseconds kPerPart{1000};  // to give back its memory
constexpr std::int32_t kMany = 256;                 // pieces, for whose first plan there may be no time

// All records end to end, around what is pinned or reserved: the plan when not even the parts are made in time.
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

// The plan of all records, gathered from the parts' plans.
class GatheredPlan {
 public:
  explicit GatheredPlan(const Split& split)
      : offsets(split.offsets), size(split.size), parts_(split.parts), is_done_(split.parts.size(), 0) {}

  std::vector<std::int64_t> offsets;  // bytes
  std::int64_t size;                  // bytes

  // Takes a plan of part k (offsets in units), unless it has one.
  void add(std::size_t k, const std::vector<std::int64_t>& units, std::int64_t bytes) {
    if (is_done_[k] != 0) return;
    const Part& part = parts_[k];
    for (std::size_t i = 0; i < part.record.size(); ++i) {
      if (part.record[i] != Part::kNoRecord) offsets[part.record[i]] = units[i] * part.unit;
    }
    size = std::max(size, bytes);
    is_done_[k] = 1;
  }

  // Lays out the parts end to end for which nothing was found in time.
  void add_rest() {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      if (is_done_[k] != 0) continue;
      const std::vector<std::int64_t> units = offset_search::end_to_end(parts_[k]);
      add(k, units, offset_search::peak(parts_[k], units));
    }
  }

 private:
  const std::vector<Part>& parts_;
  std::vector<char> is_done_;
};

// The search of all parts in one thread, of those that `limits` asks for.
class ThreadSearch {
 public:
  ThreadSearch(const Records& records, const Split& split, const SearchLimits& limits, std::uint64_t seed, int thread,
               Budget& budget)
      : records_(records),
        split_(split),
        techniques_(limits.techniques),
        seed_(seed),
        thread_(thread),
        budget_(budget),
        load_(std::max(split.size, split.parts.front().bound)),
        bound_(load_),
        plan_(split),
        quick_(budget.timed() ? split.parts.size() : 0) {}

  SearchResult run() {
    try {
      make_quick_plans();
      start_parts();
      improve_parts();
    } catch (const OutOfTime&) {
      // The parts have the best that they found.
    }
    gather();
    SearchResult result;
    result.offsets = std::move(plan_.offsets);
    result.size = plan_.size;
    result.bound = bound_;
    if (result.optimal()) {
      result.stopped = bound_ == load_ ? Stop::kBound : Stop::kProof;
    } else {
      result.stopped = budget_.out_of_time() ? Stop::kTime : Stop::kWork;
    }
    result.work = budget_.spent();
    return result;
  }

 private:
  struct OpenPart {
    OpenPart(std::size_t k, const Records& records, const Part& part, std::uint64_t seed, int thread,
             const Techniques& techniques)
        : k(k), search(records, part, seed, thread, techniques) {}
    std::size_t k;
    PartSearch search;
  };

  // With a time limit every large part gets a plan before any is searched.
  void make_quick_plans() {
    for (std::size_t k = 0; k < quick_.size(); ++k) {
      const Part& part = split_.parts[k];
      if (part.count() >= kMany && part.pinned.empty()) quick_[k] = offset_search::reuse_slots(part, budget_);
    }
  }

  // Parts whose first plan is no larger than what no arena goes below are done.
  void start_parts() {
    for (std::size_t k = 0; k < split_.parts.size(); ++k) {
      budget_.pass(split_.parts[k].count());
      PartSearch& search = open_.emplace_back(k, records_, split_.parts[k], seed_, thread_, techniques_).search;
      search.start(load_, budget_);
      if (search.size() > load_) continue;
      plan_.add(k, search.offsets(), search.size());
      open_.pop_back();
    }
  }

  // The part that decides the size has the turn, the first of equals.
  void improve_parts() {
    std::priority_queue<std::tuple<std::int64_t, std::ptrdiff_t, PartSearch*>> largest_first;
    for (OpenPart& part : open_) {
      largest_first.emplace(part.search.size(), -static_cast<std::ptrdiff_t>(part.k), &part.search);
    }
    while (!largest_first.empty() && !budget_.out_of_time() && !budget_.out_of_work()) {
      const auto [size, order, search] = largest_first.top();
      if (size <= bound_) break;
      budget_.pass();
      largest_first.pop();
      const bool is_improvable = search->improve(bound_, budget_);
      bound_ = std::max(bound_, search->bound());
      if (!is_improvable) break;
      largest_first.emplace(search->size(), order, search);
    }
  }

  void gather() {
    using offset_search::peak;
    for (const OpenPart& part : open_) {
      const bool has_quick = part.k < quick_.size() && !quick_[part.k].empty();
      if (has_quick && peak(split_.parts[part.k], quick_[part.k]) < part.search.size()) continue;
      plan_.add(part.k, part.search.offsets(), part.search.size());
    }
    for (std::size_t k = 0; k < quick_.size(); ++k) {
      if (!quick_[k].empty()) plan_.add(k, quick_[k], peak(split_.parts[k], quick_[k]));
    }
    plan_.add_rest();
  }

  const Records& records_;
  const Split& split_;
  const Techniques& techniques_;
  const std::uint64_t seed_;
  const int thread_;
  Budget& budget_;
  const std::int64_t load_;  // bytes: the bound that needs no search
  std::int64_t bound_;       // bytes
  GatheredPlan plan_;
  std::vector<std::vector<std::int64_t>> quick_;  // plans of large parts, if there is a time limit
  std::list<OpenPart> open_;                      // parts that may decide the size
};

// The first thread searches with the caller's seed, the others with those that SplitMix64 makes of it.
std::uint64_t seed_of(std::uint64_t seed, int thread) {
  if (thread == 0) return seed;
  return splitmix64(seed + static_cast<std::uint64_t>(thread - 1) * 0x9e3779b97f4a7c15U);
}

// Every thread is a search of its own. One that has an optimal plan stops those that have worked for longer, and only
// those, so that of all optimal plans the one that took the least work is always found, on a quick machine and on a
// slow one. If there is none, all end at the work limit.
SearchResult search_in_threads(const Records& records, const Split& split, const SearchLimits& limits,
                               const Budget& budget) {
  std::vector<SearchResult> results(static_cast<std::size_t>(limits.threads));
  std::atomic<std::int64_t> least_work = std::numeric_limits<std::int64_t>::max();  // of an optimal plan
  offset_search::side_by_side(limits.threads, [&](int k) {
    Budget own = budget;
    own.stop_beyond(&least_work);
    if (k > 0) own.poll({});
    try {
      SearchResult& found = results[static_cast<std::size_t>(k)];
      found = ThreadSearch(records, split, limits, seed_of(limits.seed, k), k, own).run();
      std::int64_t known = least_work.load();
      while (found.optimal() && found.work < known && !least_work.compare_exchange_weak(known, found.work)) {
      }
    } catch (const std::bad_alloc&) {
      throw;  // tried again
    } catch (...) {
      least_work = -1;  // stops the others
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
  Split split;
  try {
    split = offset_search::split(records, budget);
  } catch (const OutOfTime&) {
    return end_to_end(records);
  }
  if (split.parts.empty()) {
    SearchResult stacked;
    stacked.size = stacked.bound = split.size;
    stacked.offsets = std::move(split.offsets);
    return stacked;
  }
  budget.keep_back(kPerPart * static_cast<std::int64_t>(split.parts.size()));
  if (limits.threads == 1) return ThreadSearch(records, split, limits, limits.seed, 0, budget).run();
  return search_in_threads(records, split, limits, budget);
}

}  // namespace edgemem
