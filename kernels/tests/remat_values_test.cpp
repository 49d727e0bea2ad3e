#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "remat/values.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::remat::CallId;
using edgemem::remat::kNobody;
using edgemem::remat::ValueId;
using edgemem::remat::Values;

// A call that writes one value; it runs at once.
ValueId run(Values& values, std::int64_t cost, const std::vector<ValueId>& reads) {
  const CallId call = values.add_call(cost, reads, std::vector<std::int64_t>{8});
  const ValueId made = values.call(call).writes[0];
  values.set_resident(made, 0);
  values.ran(call);
  return made;
}

ValueId constant(Values& values) {
  const ValueId made = values.add_constant(8);
  values.set_resident(made, 0);
  return made;
}

// A constant and a chain of calls behind it, of costs 1, 2, 4, ...
std::vector<ValueId> chain(Values& values, int calls) {
  std::vector<ValueId> made{constant(values)};
  for (int i = 0; i < calls; ++i) made.push_back(run(values, std::int64_t{1} << i, {made.back()}));
  return made;
}

std::vector<ValueId> forgotten(Values& values) {
  const auto gone = values.take_forgotten();
  std::vector<ValueId> sorted(gone.begin(), gone.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

TEST(remat_values_know_what_can_be_evicted) {
  Values values;
  const std::vector<ValueId> made = chain(values, 1);
  CHECK(!values.is_evictable(made[0]) && values.is_evictable(made[1]));
  values.lock(made[1]);
  CHECK(!values.is_evictable(made[1]));
  values.unlock(made[1]);
  CHECK(values.is_evictable(made[1]) && !values.is_idle(made[1]));
  values.pin(made[1]);
  CHECK(!values.is_evictable(made[1]));
}

TEST(remat_values_age_while_calls_run) {
  Values values;
  const std::vector<ValueId> made = chain(values, 3);
  CHECK(values.clock() == 7);
  CHECK(values.staleness(made[3]) == 1);  // at least 1
  CHECK(values.staleness(made[2]) == 4 && values.staleness(made[1]) == 6 && values.staleness(made[0]) == 7);
  values.touch(made[1]);
  values.advance(10);
  CHECK(values.staleness(made[1]) == 10 && values.staleness(made[2]) == 14);
  // What is made again and nobody asked for is as stale as it was.
  values.set_evicted(made[2]);
  values.set_resident(made[2], 0);
  values.ran(values.value(made[2]).call);
  CHECK(values.staleness(made[2]) == 16);
}

TEST(remat_values_count_evicted_neighbours_in_the_projected_cost) {
  Values values;
  const std::vector<ValueId> made = chain(values, 5);  // costs 1, 2, 4, 8, 16 of made[1..5]
  CHECK(values.projected_cost(made[3]) == 4);
  values.set_evicted(made[2]);
  CHECK(values.projected_cost(made[3]) == 4 + 2 && values.projected_cost(made[1]) == 1 + 2);
  values.set_evicted(made[4]);
  CHECK(values.projected_cost(made[3]) == 4 + 2 + 8);
  values.set_evicted(made[3]);  // one set of three
  CHECK(values.projected_cost(made[5]) == 16 + 14 && values.projected_cost(made[1]) == 1 + 14);
  // A value that is made again leaves its set, which stays one.
  values.set_resident(made[3], 0);
  CHECK(values.projected_cost(made[5]) == 16 + 10 && values.projected_cost(made[3]) == 4 + 10);
}

TEST(remat_values_count_a_set_once_for_each_value) {
  Values values;
  const ValueId start = constant(values);
  const ValueId left = run(values, 1, {start}), right = run(values, 2, {start});
  const ValueId both = run(values, 4, {left, right});
  values.set_evicted(left);
  values.set_evicted(right);  // two sets: a constant does not join them
  CHECK(values.projected_cost(both) == 4 + 1 + 2);
  values.set_evicted(both);
  const ValueId end = run(values, 8, {both, left});
  CHECK(values.projected_cost(end) == 8 + 7);
}

TEST(remat_values_are_forgotten_when_nobody_needs_them) {
  Values values;
  const std::vector<ValueId> made = chain(values, 3);
  for (const ValueId id : {made[0], made[1], made[2]}) values.let_go(id);
  CHECK(forgotten(values).empty());  // made[3] may have to be made again
  CHECK(values.is_idle(made[1]) && !values.is_idle(made[3]));
  values.lock(made[1]);
  values.let_go(made[3]);
  CHECK(forgotten(values) == (std::vector{made[2], made[3]}));
  values.unlock(made[1]);
  CHECK(forgotten(values) == (std::vector{made[0], made[1]}));
  CHECK(values.value_count() == 2);  // handed out, not yet to be used again
  CHECK(forgotten(values).empty() && values.value_count() == 0);
}

TEST(remat_values_that_are_forgotten_leave_the_sets) {
  Values values;
  const std::vector<ValueId> made = chain(values, 2);
  const ValueId beside = run(values, 64, {made[1]});
  values.set_evicted(beside);
  CHECK(values.projected_cost(made[1]) == 1 + 64);
  values.let_go(beside);
  CHECK(values.projected_cost(made[1]) == 1);
}

TEST(remat_values_drop_the_recipe_of_what_is_pinned) {
  Values values;
  const std::vector<ValueId> made = chain(values, 2);
  values.let_go(made[0]);
  values.let_go(made[1]);
  values.pin(made[2]);
  CHECK(forgotten(values) == (std::vector{made[0], made[1]}));
  CHECK(!values.is_recomputable(made[2]) && values.value(made[2]).is_held);
  // Of a call with two results, the recipe lives as long as one of them needs it.
  const CallId call = values.add_call(1, std::vector{made[2]}, std::vector<std::int64_t>{8, 8});
  const ValueId one = values.call(call).writes[0], other = values.call(call).writes[1];
  values.set_resident(one, 0);
  values.set_resident(other, 8);
  values.let_go(made[2]);
  values.pin(one);
  CHECK(forgotten(values).empty() && values.is_recomputable(other));
  values.let_go(other);
  CHECK(forgotten(values) == (std::vector{made[2], other}));
}

TEST(remat_values_name_the_held_dependents) {
  Values values;
  const std::vector<ValueId> made = chain(values, 3);
  const ValueId apart = run(values, 1, {constant(values)});
  values.let_go(made[2]);
  CHECK(values.dependents(made[0]) == (std::vector{made[1], made[3]}));
  values.pin(made[1]);
  CHECK(values.dependents(made[0]).empty());
  CHECK(values.dependents(made[1]) == std::vector{made[3]} && values.dependents(apart).empty());
}

TEST(remat_values_use_numbers_again) {
  Values values;
  const ValueId weight = constant(values);
  for (int step = 0; step < 1000; ++step) {
    ValueId last = weight;
    for (int i = 0; i < 10; ++i) {
      const ValueId next = run(values, 3, {last, weight});
      if (last != weight) values.let_go(last);
      if (i % 3 == 0) values.set_evicted(next);
      last = next;
    }
    values.let_go(last);
    values.take_forgotten();
    CHECK(values.value(weight).read_by.empty());
  }
  CHECK(values.value_count() <= 11);
}

TEST(remat_values_forget_a_long_chain_without_recursion) {
  Values values;
  constexpr int kCalls = 200'000;
  ValueId last = constant(values);
  for (int i = 0; i < kCalls; ++i) {
    const ValueId next = run(values, 1, {last});
    values.let_go(last);
    last = next;
  }
  CHECK(forgotten(values).empty());
  values.let_go(last);
  CHECK(forgotten(values).size() == kCalls + 1);
}

TEST(remat_values_are_read_once_by_a_call) {
  Values values;
  const ValueId one = constant(values), other = constant(values);
  const CallId call = values.add_call(1, std::vector{one, other, one}, std::vector<std::int64_t>{8});
  CHECK(values.call(call).reads == (std::vector{one, other}));
  const ValueId beside = run(values, 1, {one});
  values.let_go(values.call(call).writes[0]);
  CHECK(values.value(one).read_by == std::vector{values.value(beside).call} && values.value(other).read_by.empty());
}

TEST(remat_values_refuse_impossible_calls) {
  Values values;
  const ValueId known = constant(values);
  const std::vector<std::int64_t> eight{8}, none, negative{-1};
  CHECK_REFUSED(values.add_constant(-1));
  CHECK_REFUSED(values.add_call(-1, std::vector{known}, eight));
  CHECK_REFUSED(values.add_call(1, std::vector{known}, none));
  CHECK_REFUSED(values.add_call(1, std::vector{known}, negative));
  CHECK_REFUSED(values.add_call(1, std::vector{known + 1}, eight));
  CHECK_REFUSED(values.add_call(1, std::vector{kNobody}, eight));
}
