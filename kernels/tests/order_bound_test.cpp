#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "planner/common/budget.h"
#include "planner/schedule/bound.h"
#include "planner/schedule/cuts.h"
#include "planner/schedule/problem.h"
#include "planner/schedule/relaxed.h"
#include "tests/check.h"
#include "tests/order_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::Budget;
using edgemem::schedule::Cuts;
using edgemem::schedule::Id;
using edgemem::schedule::Problem;

constexpr std::int64_t kMuch = std::int64_t{1} << 50;

template <class Number>
std::vector<Number> given_order(const Problem& problem) {
  std::vector<Number> order(static_cast<std::size_t>(problem.count()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::int64_t bound_of(const Problem& problem, std::int64_t work = kMuch) {
  Budget budget(work, {});
  return lower_bound(problem, given_order<std::int64_t>(problem), &budget);
}

// Of each operator: the least that is alive at its step in any order.
Values least_at_steps(const Fields& fields) {
  Values least(fields.before.size(), std::numeric_limits<std::int64_t>::max());
  Values order;
  each_order(fields, order, [&](const Values& all) {
    const Values steps = literal_steps(fields, all);
    for (std::size_t place = 0; place < all.size(); ++place) {
      std::int64_t& known = least[static_cast<std::size_t>(all[place])];
      known = std::min(known, steps[place]);
    }
  });
  return least;
}

TEST(no_order_is_below_the_bound) {
  Random random(21);
  int proved = 0;
  for (int round = 0; round < rounds(1500); ++round) {
    const Fields fields = random_fields(random, 7, true);
    const Problem problem(fields);
    const std::int64_t least = least_peak_of_all_orders(fields);
    const std::int64_t bound = bound_of(problem);
    CHECK(bound <= least);
    CHECK(bound_of(problem, random.below(100)) <= bound);
    proved += bound == least ? 1 : 0;
  }
  CHECK(proved > 700 * rounds(1500) / 1500);
}

TEST(a_bound_needs_an_order) {
  const Problem problem(Fields{
      {{}, {0}}, {1, 2}, {{}, {0}}, {{0}, {1}}, {{}, {}}, {}, {}, {}, {}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}});
  Budget budget(kMuch, {});
  CHECK_REFUSED(lower_bound(problem, Values{1, 0}, &budget));
  CHECK_REFUSED(lower_bound(problem, Values{0}, &budget));
  CHECK(lower_bound(problem, Values{0, 1}, &budget) == 3);
}

TEST(no_step_is_below_its_cut) {
  Random random(22);
  for (int round = 0; round < rounds(1500); ++round) {
    const Fields fields = random_fields(random, 7, true);
    const Problem problem(fields);
    const Problem relaxed = edgemem::schedule::relaxed(problem);
    Cuts cuts(relaxed);
    const Values least = least_at_steps(fields);
    for (Id k = 0; k < problem.count(); ++k) CHECK(cuts.least(k) <= least[static_cast<std::size_t>(k)]);
  }
}

TEST(without_special_rules_the_cut_is_the_least_step) {
  Random random(23);
  for (int round = 0; round < rounds(1500); ++round) {
    const Fields fields = random_fields(random, 7, false);
    const Problem problem(fields);
    const Problem relaxed = edgemem::schedule::relaxed(problem);
    Cuts cuts(relaxed);
    const Values least = least_at_steps(fields);
    const std::vector<Id> order = given_order<Id>(problem);
    for (Id k = 0; k < problem.count(); ++k) {
      const std::int64_t truth = least[static_cast<std::size_t>(k)];
      CHECK(cuts.least(k) == truth);
      const std::vector<char> ran = cuts.ran();
      CHECK(cuts.beside(k, ran, order) == truth);
      CHECK(cuts.along(k, order) >= truth);
      CHECK(cuts.least(k, truth) >= truth && cuts.least(k, truth + 1) == truth);
    }
    CHECK(bound_of(problem) >= std::max(problem.at_start, *std::max_element(least.begin(), least.end())));
  }
}

}  // namespace
