#include "planner/search.h"

#include <algorithm>
#include <list>

#include "planner/offsets.h"
#include "planner/search_budget.h"
#include "planner/search_part.h"
#include "planner/search_pieces.h"

namespace edgemem {

SearchResult search_offsets(const Records& records, const SearchLimits& limits) {
  check(records);
  search::Budget budget(limits.work, limits.seconds);
  SearchResult result;
  result.offsets.assign(records.count(), 0);
  const std::vector<search::Pieces> pieces = search::split(records);
  if (pieces.empty()) return result;
  const std::int64_t load = pieces.front().bound;
  std::list<search::Part> parts;
  for (const search::Pieces& p : pieces) parts.emplace_back(records, p, limits.seed);
  result.bound = load;
  for (search::Part& part : parts) part.start(load, budget);
  // The part that decides the size has the turn.
  for (;;) {
    search::Part& worst = *std::max_element(
        parts.begin(), parts.end(), [](const search::Part& a, const search::Part& b) { return a.size() < b.size(); });
    result.size = worst.size();
    if (result.size <= result.bound) {
      result.stopped = result.bound == load ? SearchResult::Stop::kBound : SearchResult::Stop::kProof;
      break;
    }
    if (budget.out_of_time() || budget.out_of_work()) {
      result.stopped = budget.out_of_time() ? SearchResult::Stop::kTime : SearchResult::Stop::kWork;
      break;
    }
    worst.improve(result.bound, budget);
    result.bound = std::max(result.bound, worst.bound());
  }
  result.work = budget.spent();
  auto p = pieces.begin();
  for (const search::Part& part : parts) {
    for (std::size_t i = 0; i < p->record.size(); ++i) result.offsets[p->record[i]] = part.offsets()[i] * p->unit;
    ++p;
  }
  return result;
}

}  // namespace edgemem
