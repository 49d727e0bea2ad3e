#include "planner/shared_objects_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/objects/exchange.h"
#include "planner/objects/pieces.h"
#include "planner/objects/plan.h"
#include "planner/objects/stocks.h"
#include "planner/positional_maxima.h"
#include "planner/search/budget.h"

namespace edgemem {
namespace {

// Up to so many records all first plans are made; with a limit in seconds, which they cannot look at, up to fewer, and
// the best simple rule only if it is expected to be done in time.
constexpr std::size_t kFewRecords = 10'000;
constexpr std::size_t kFewRecordsInTime = 1'000;
constexpr double kSecondsARecord = 5e-6;
constexpr double kSecondsAnObject = 1e-8;      // looked at for a record
constexpr std::int64_t kBelowAlone = 100'000;  // steps for the bound before any for the plan

using objects::Box;
using objects::Pieces;

// The positional maxima of the pieces' contents, without those of records that take no space.
std::vector<std::int64_t> maxima_of(const Pieces& pieces) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> size;
  for (std::int32_t p = 0; p < pieces.count(); ++p) {
    first.push_back(pieces.begin[static_cast<std::size_t>(p)]);
    last.push_back(pieces.end[static_cast<std::size_t>(p)] - 1);
    size.push_back(content(pieces.box_of(p)));
  }
  return positional_maxima({first, last, size});
}

// Boxes that every plan covers, each by an object of its own: where all boxes are in a line, the positional maxima;
// else the pieces of the section with the greatest content.
std::vector<Box> least_stock(const Pieces& pieces, const std::vector<std::int64_t>& maxima) {
  std::vector<Box> stock;
  if (pieces.line) {
    for (const std::int64_t maximum : maxima) {
      stock.push_back(*std::partition_point(pieces.box.begin(), pieces.box.end(),
                                            [maximum](const Box& box) { return content(box) < maximum; }));
    }
    return stock;
  }
  std::vector<std::int64_t> load(static_cast<std::size_t>(pieces.sections) + 1, 0);
  for (std::int32_t p = 0; p < pieces.count(); ++p) {
    load[static_cast<std::size_t>(pieces.begin[static_cast<std::size_t>(p)])] += content(pieces.box_of(p));
    load[static_cast<std::size_t>(pieces.end[static_cast<std::size_t>(p)])] -= content(pieces.box_of(p));
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  const auto fullest = static_cast<std::int32_t>(std::max_element(load.begin(), load.end()) - load.begin());
  for (std::int32_t p = 0; p < pieces.count(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (pieces.begin[i] <= fullest && fullest < pieces.end[i]) stock.push_back(pieces.box_of(p));
  }
  return stock;
}

}  // namespace

namespace {

objects::First first_rules(std::size_t records, std::size_t alive, const std::optional<double>& seconds) {
  if (!seconds) return records <= kFewRecords ? objects::First::kAll : objects::First::kBySize;
  if (records <= kFewRecordsInTime) return objects::First::kAll;
  const auto count = static_cast<double>(records);
  const double expected = count * (kSecondsARecord + kSecondsAnObject * static_cast<double>(alive));
  return expected < *seconds / 2 ? objects::First::kBySize : objects::First::kInTime;
}

}  // namespace

ObjectSearchResult search_shared_objects(const ObjectRecords& records, const ObjectSearchLimits& limits) {
  check(records);
  search::Budget budget(limits.work, limits.seconds, records.count());
  budget.poll(limits.poll);
  ObjectSearchResult result;
  const Pieces pieces = objects::reduce(records);
  objects::Plan plan;
  const std::vector<std::int64_t> maxima = maxima_of(pieces);
  const std::int64_t sum = std::accumulate(maxima.begin(), maxima.end(), std::int64_t{0});
  if (pieces.count() > 0) {
    plan = first_plan(records, pieces, first_rules(records.count(), maxima.size(), limits.seconds));
    objects::Stocks stocks(pieces, least_stock(pieces, maxima), budget);
    objects::Exchange exchange(pieces, plan, budget, limits.seed);
    result.bound = std::max(sum, stocks.bound());
    std::int64_t below = 0;  // steps for the bound
    bool full = false;
    while (result.bound < plan.total) {
      const std::int64_t before = budget.spent();
      // Half of the steps are for the bound, which finds an optimal plan in the end; the other half are for the plan.
      if (!full && below <= before / 2 + kBelowAlone) {
        const objects::Stocks::Turn turn = stocks.step(plan.total);
        if (turn == objects::Stocks::Turn::kFits) plan = objects::plan_of(pieces, stocks.places());
        result.bound = std::max(result.bound, stocks.bound());
        full = turn == objects::Stocks::Turn::kFull;
        below += budget.spent() - before;
      } else {
        if (exchange.step()) plan = exchange.best();
      }
      if (budget.out_of_time() || budget.out_of_work()) break;
    }
  }
  result.size = plan.total;
  result.work = budget.spent();
  if (result.size > result.bound) {
    result.stopped = budget.out_of_time() ? Stop::kTime : Stop::kWork;
  } else {
    result.stopped = result.bound == sum ? Stop::kBound : Stop::kProof;
  }
  result.assignment = assignment_of(records, pieces, plan);
  return result;
}

}  // namespace edgemem
