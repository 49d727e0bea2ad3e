#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <list>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/search_budget.h"
#include "planner/search_part.h"
#include "planner/search_pieces.h"
#include "planner/search_slots.h"
#include "planner/search_threads.h"

namespace edgemem {

namespace {

using search::Budget;
using search::Late;
using search::Part;
using search::Pieces;
using Stop = SearchResult::Stop;

// What no search is needed for.
SearchResult end_to_end(const Records& records) {
  SearchResult result;
  result.offsets.resize(records.count());
  std::int64_t next = 0;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] == 0) continue;
    result.offsets[i] = next;
    result.size = next + records.size[i];
    result.bound = std::max(result.bound, records.size[i]);
    next += records.padded(i);
  }
  result.stopped = result.optimal() ? Stop::kBound : Stop::kTime;
  return result;
}

// Adds the best offsets and the size of all parts. Where time ended early, parts at the end may be missing in `parts`,
// and in `quick`, which is empty without a time limit.
void gather(const std::vector<Pieces>& pieces, const std::list<Part>& parts,
            const std::vector<std::vector<std::int64_t>>& quick, SearchResult& result) {
  auto part = parts.begin();
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Pieces& p = pieces[k];
    std::vector<std::int64_t> stacked;
    const std::vector<std::int64_t>* offsets = &stacked;
    std::int64_t size = std::numeric_limits<std::int64_t>::max();
    if (part != parts.end()) {
      offsets = &part->offsets();
      size = part->size();
      ++part;
    }
    if (k < quick.size() && size > p.bound) {
      const std::int64_t other = search::peak(p, quick[k]);
      if (other < size) offsets = &quick[k];
      size = std::min(size, other);
    } else if (size == std::numeric_limits<std::int64_t>::max()) {
      stacked.resize(p.size.size());
      std::exclusive_scan(p.size.begin(), p.size.end(), stacked.begin(), std::int64_t{0});
      size = search::peak(p, stacked);
    }
    for (std::size_t i = 0; i < p.record.size(); ++i) result.offsets[p.record[i]] = (*offsets)[i] * p.unit;
    result.size = std::max(result.size, size);
  }
}

// The search in one thread, the `place`th of several.
SearchResult search_once(const search::Split& whole, std::uint64_t seed, int place, Budget& budget) {
  const std::vector<Pieces>& pieces = whole.parts;
  SearchResult result;
  const std::int64_t load = std::max(whole.size, pieces.front().bound);
  result.bound = load;
  std::list<Part> parts;
  std::vector<std::vector<std::int64_t>> quick;
  try {
    if (budget.timed()) {
      for (const Pieces& p : pieces) quick.push_back(search::hand_on(p, budget));
    }
    for (const Pieces& p : pieces) {
      budget.pass(p.count());
      parts.emplace_back(p, seed, place);
    }
    std::priority_queue<std::tuple<std::int64_t, std::ptrdiff_t, Part*>> turns;
    std::ptrdiff_t index = 0;
    for (Part& part : parts) {
      part.start(load, budget);
      turns.emplace(part.size(), --index, &part);
    }
    // The part that decides the size has the turn, the first of equals.
    for (;;) {
      const auto [size, order, worst] = turns.top();
      result.size = size;
      if (result.size <= result.bound || budget.out_of_time() || budget.out_of_work()) break;
      budget.pass();
      turns.pop();
      worst->improve(result.bound, budget);
      result.bound = std::max(result.bound, worst->bound());
      turns.emplace(worst->size(), order, worst);
    }
  } catch (const Late&) {
    // The parts have the best that they found.
  }
  result.offsets = whole.offsets;
  result.size = whole.size;
  gather(pieces, parts, quick, result);
  if (result.optimal()) {
    result.stopped = result.bound == load ? Stop::kBound : Stop::kProof;
  } else {
    result.stopped = budget.out_of_time() ? Stop::kTime : Stop::kWork;
  }
  result.work = budget.spent();
  return result;
}

// Splitmix64: another seed for every thread but the first.
std::uint64_t seed_of(std::uint64_t seed, int thread) {
  if (thread == 0) return seed;
  std::uint64_t x = seed + static_cast<std::uint64_t>(thread) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// Each thread is a search of its own. One that has an optimal plan stops those that have worked for longer, and only
// those, so that of all optimal plans the one that took the least work is always found, on a quick machine and on a
// slow one. If there is none, all end at the work limit.
SearchResult search_portfolio(const search::Split& whole, const SearchLimits& limits, const Budget& budget) {
  std::vector<SearchResult> results(static_cast<std::size_t>(limits.threads));
  std::atomic<std::int64_t> least = std::numeric_limits<std::int64_t>::max();  // work of an optimal plan
  search::side_by_side(limits.threads, [&](int k) {
    Budget mine = budget;
    mine.yield_to(&least);
    if (k > 0) mine.poll({});
    try {
      SearchResult& mine_found = results[static_cast<std::size_t>(k)];
      mine_found = search_once(whole, seed_of(limits.seed, k), k, mine);
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
  search::Split whole;
  try {
    whole = search::split(records, budget);
  } catch (const Late&) {
    return end_to_end(records);
  }
  if (whole.parts.empty()) {
    SearchResult stacked;
    stacked.size = stacked.bound = whole.size;
    stacked.offsets = std::move(whole.offsets);
    return stacked;
  }
  if (limits.threads == 1) return search_once(whole, limits.seed, 0, budget);
  return search_portfolio(whole, limits, budget);
}

}  // namespace edgemem
