#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/stop.h"
#include "planner/schedule/improve.h"
#include "planner/schedule/part.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/run.h"
#include "planner/schedule/small.h"
#include "tests/check.h"
#include "tests/order_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::Budget;
using edgemem::Stop;
using edgemem::schedule::Id;
using edgemem::schedule::Limits;
using edgemem::schedule::part_of;
using edgemem::schedule::Price;
using edgemem::schedule::Problem;
using edgemem::schedule::Run;
using edgemem::schedule::SmallSearch;
using edgemem::schedule::Solved;

constexpr std::int64_t kMuch = std::int64_t{1} << 50;

std::int64_t cost(const Price& price, const Values& steps) {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : steps) sum += price.of(bytes);
  return sum;
}

TEST(runs_count_what_is_alive_at_each_step) {
  Random random(31);
  for (int round = 0; round < rounds(2000); ++round) {
    const Fields fields = random_fields(random, 12, true);
    const Problem problem(fields);
    const Values order = random_order(fields, random);
    const Values steps = literal_steps(fields, order);
    Run run(problem);
    for (std::size_t k = 0; k < order.size(); ++k) {
      CHECK(run.during(static_cast<Id>(order[k])) == steps[k]);
      run.run(static_cast<Id>(order[k]));
    }
  }
}

TEST(the_cheapest_order_of_few_operators) {
  Random random(32);
  int impossible = 0;
  for (int round = 0; round < rounds(1000); ++round) {
    const Fields fields = random_fields(random, 7, true);
    const Problem problem(fields);
    const std::int64_t least = least_peak_of_all_orders(fields);
    Price price;
    price.most = least - 1 + random.below(4) * (1 + least / 4);
    price.high = price.most - random.below(4);
    price.low = price.high - 1 - random.below(1 + std::max<std::int64_t>(price.high, 0) / 2);
    price.for_high = random.below(100);
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    Values order;
    each_order(fields, order, [&](const Values& all) {
      const Values steps = literal_steps(fields, all);
      if (*std::max_element(steps.begin(), steps.end()) <= price.most) best = std::min(best, cost(price, steps));
    });
    Budget budget(kMuch, {});
    SmallSearch search(problem);
    for (const std::size_t width : {1'000'000U, 3U}) {
      const auto found = search.find(price, width, random.engine()(), &budget);
      const bool is_none = best == std::numeric_limits<std::int64_t>::max();
      CHECK(width == 3 || found.is_best);
      CHECK(found.order.empty() ? is_none || !found.is_best : !is_none);
      if (found.order.empty()) continue;
      const Values steps = literal_steps(fields, Values(found.order.begin(), found.order.end()));
      CHECK(cost(price, steps) == found.cost && *std::max_element(steps.begin(), steps.end()) <= price.most);
      CHECK(found.is_best ? found.cost == best : found.cost >= best);
    }
    impossible += best == std::numeric_limits<std::int64_t>::max() ? 1 : 0;
  }
  CHECK(impossible > 0);
}

TEST(a_part_has_the_steps_of_the_whole) {
  Random random(33);
  for (int round = 0; round < rounds(2000); ++round) {
    const Fields fields = random_fields(random, 12, true);
    const Problem problem(fields);
    const Values order = random_order(fields, random);
    const Values steps = literal_steps(fields, order);
    const auto count = static_cast<std::int64_t>(order.size());
    const std::int64_t begin = random.below(count);
    const std::int64_t end = begin + 1 + random.below(count - begin);
    Run run(problem);
    for (std::int64_t k = 0; k < begin; ++k) run.run(static_cast<Id>(order[static_cast<std::size_t>(k)]));
    std::vector<Id> ops(order.begin() + begin, order.begin() + end);
    std::shuffle(ops.begin(), ops.end(), random.engine());
    const Problem part = part_of(problem, ops, run);
    CHECK(part.count() == end - begin);
    Run inner(part);
    CHECK(inner.live() == run.live());
    for (std::int64_t k = begin; k < end; ++k) {
      const auto place = std::find(ops.begin(), ops.end(), static_cast<Id>(order[static_cast<std::size_t>(k)]));
      const auto op = static_cast<Id>(place - ops.begin());
      CHECK(inner.during(op) == steps[static_cast<std::size_t>(k)]);
      inner.run(op);
      run.run(*place);
      CHECK(inner.live() == run.live());
    }
  }
}

TEST(few_operators_are_ordered_at_once_and_proved) {
  Random random(34);
  int proved = 0;
  for (int round = 0; round < rounds(1000); ++round) {
    const Fields fields = random_fields(random, 8, true);
    const Problem problem(fields);
    const Values order = random_order(fields, random);
    const std::int64_t least = least_peak_of_all_orders(fields);
    const Solved solved = improve(problem, {order, 0}, {kMuch, 1, {}, {}});
    CHECK(peak(problem, solved.order) == least && literal_peak(fields, solved.order) == least);
    CHECK(solved.stopped == Stop::kProof && solved.bound == least);
    CHECK(improve(problem, {order, least}, {kMuch, 1, {}, {}}).stopped == Stop::kBound);
    const Solved some = improve(problem, {order, 0}, {random.below(60), random.engine()(), {}, {}});
    const std::int64_t reached = literal_peak(fields, some.order);
    CHECK(reached <= literal_peak(fields, order) && some.bound <= least);
    CHECK((some.stopped == Stop::kProof) == (some.bound == reached));
    proved += some.stopped == Stop::kProof ? 1 : 0;
  }
  CHECK(proved > 0 && proved < rounds(1000));
}

TEST(improving_more_than_one_window) {
  Random random(35);
  for (int round = 0; round < 20; ++round) {
    const Fields fields = random_fields(random, 150, true);
    const Problem problem(fields);
    const Values order = random_order(fields, random);
    std::int64_t before = literal_peak(fields, order);
    for (const std::int64_t work : {20'000, 60'000}) {
      const Solved solved = improve(problem, {order, 0}, {work, 1, {}, {}});
      const std::int64_t reached = literal_peak(fields, solved.order);
      CHECK(peak(problem, solved.order) == reached && reached <= before);
      before = reached;
    }
  }
}

TEST(improving_needs_an_order) {
  Random random(36);
  const Problem problem(random_fields(random, 9, true));
  CHECK_REFUSED(improve(problem, {Values(static_cast<std::size_t>(problem.count()) + 1, 0), 0}, {10, 1, {}, {}}));
}

}  // namespace
