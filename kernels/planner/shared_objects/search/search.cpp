#include "planner/shared_objects/search/search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/common/budget.h"
#include "planner/shared_objects/positional_maxima.h"
#include "planner/shared_objects/search/exchange.h"
#include "planner/shared_objects/search/items.h"
#include "planner/shared_objects/search/plan.h"
#include "planner/shared_objects/search/stocks.h"

namespace edgemem {
namespace {

// Up to so many records all rules make a first plan. They do not watch the clock: with a limit in seconds the number is
// smaller, and beyond it even the rule by size is followed only if it is expected to end in time.
constexpr std::size_t kFewRecords = 10'000;
constexpr std::size_t kFewRecordsInTime = 1'000;
constexpr double kSecondsARecord = 5e-6;
constexpr double kSecondsAnObject = 1e-8;           // looked at for a record
constexpr std::int64_t kBoundStepsFirst = 100'000;  // steps for the bound before any for the plan

using object_search::Box;
using object_search::Items;

// The positional maxima of the items' contents, without those of records that take no space.
std::vector<std::int64_t> maxima_of(const Items& items) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> size;
  for (std::int32_t p = 0; p < items.count(); ++p) {
    first.push_back(items.begin[static_cast<std::size_t>(p)]);
    last.push_back(items.end[static_cast<std::size_t>(p)] - 1);
    size.push_back(content(items.box_of(p)));
  }
  return positional_maxima({first, last, size});
}

// Boxes that every plan covers, each by an object of its own: where boxes are nested, the positional maxima; else the
// items of the section with the greatest content.
std::vector<Box> least_stock(const Items& items, const std::vector<std::int64_t>& maxima) {
  std::vector<Box> stock;
  if (items.is_nested) {
    for (const std::int64_t maximum : maxima) {
      stock.push_back(*std::partition_point(items.box.begin(), items.box.end(),
                                            [maximum](const Box& box) { return content(box) < maximum; }));
    }
    return stock;
  }
  std::vector<std::int64_t> load(static_cast<std::size_t>(items.sections) + 1, 0);
  for (std::int32_t p = 0; p < items.count(); ++p) {
    load[static_cast<std::size_t>(items.begin[static_cast<std::size_t>(p)])] += content(items.box_of(p));
    load[static_cast<std::size_t>(items.end[static_cast<std::size_t>(p)])] -= content(items.box_of(p));
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  const auto fullest = static_cast<std::int32_t>(std::max_element(load.begin(), load.end()) - load.begin());
  for (std::int32_t p = 0; p < items.count(); ++p) {
    const auto i = static_cast<std::size_t>(p);
    if (items.begin[i] <= fullest && fullest < items.end[i]) stock.push_back(items.box_of(p));
  }
  return stock;
}

object_search::First first_rules(std::size_t records, std::size_t alive, const std::optional<double>& seconds) {
  if (!seconds) return records <= kFewRecords ? object_search::First::kAll : object_search::First::kBySize;
  if (records <= kFewRecordsInTime) return object_search::First::kAll;
  const auto count = static_cast<double>(records);
  const double expected = count * (kSecondsARecord + kSecondsAnObject * static_cast<double>(alive));
  return expected < *seconds / 2 ? object_search::First::kBySize : object_search::First::kReuse;
}

}  // namespace

ObjectSearchResult search_shared_objects(const ObjectRecords& records, const ObjectSearchLimits& limits) {
  check(records);
  Budget budget(limits.work, limits.seconds, records.count());
  budget.poll(limits.poll);
  ObjectSearchResult result;
  const Items items = object_search::items_of(records);
  object_search::Plan plan;
  const std::vector<std::int64_t> maxima = maxima_of(items);
  const std::int64_t sum = std::accumulate(maxima.begin(), maxima.end(), std::int64_t{0});
  if (items.count() > 0) {
    plan = first_plan(records, items, first_rules(records.count(), maxima.size(), limits.seconds));
    object_search::Stocks stocks(items, least_stock(items, maxima), budget);
    object_search::Exchange exchange(items, plan, budget, limits.seed);
    result.bound = std::max(sum, stocks.bound());
    std::int64_t bound_steps = 0;  // steps for the bound
    bool full = false;
    while (result.bound < plan.total) {
      const std::int64_t before = budget.spent();
      // Half of the steps are for the bound, which finds an optimal plan in the end; the other half are for the plan.
      if (!full && bound_steps <= before / 2 + kBoundStepsFirst) {
        const object_search::Stocks::Turn turn = stocks.step(plan.total);
        if (turn == object_search::Stocks::Turn::kFits) plan = object_search::plan_of(items, stocks.places());
        result.bound = std::max(result.bound, stocks.bound());
        full = turn == object_search::Stocks::Turn::kFull;
        bound_steps += budget.spent() - before;
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
  result.assignment = assignment_of(records, items, plan);
  return result;
}

}  // namespace edgemem
