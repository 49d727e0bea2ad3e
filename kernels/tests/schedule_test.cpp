#include <cstdint>
#include <limits>
#include <stdexcept>

#include "planner/schedule/beam.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/problem.h"
#include "tests/check.h"
#include "tests/order_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::Budget;
using edgemem::Stop;
using edgemem::schedule::Limits;
using edgemem::schedule::Problem;
using edgemem::schedule::Solved;

constexpr std::int64_t kMuch = 1'000'000'000;

// b and c read a; d reads both.
Fields diamond() {
  Fields fields;
  fields.before = {{}, {0}, {0}, {1, 2}};
  fields.size = {10, 4, 3, 8};
  fields.reads = {{}, {0}, {0}, {1, 2}};
  fields.writes = {{0}, {1}, {2}, {3}};
  fields.over = Fields{}.over;
  fields.over.resize(4);
  fields.kept = {3};
  for (Values* sizes : {&fields.own, &fields.inside, &fields.early, &fields.leaves, &fields.entry}) sizes->resize(4);
  return fields;
}

}  // namespace

TEST(peaks_of_orders) {
  Random random(1);
  for (int round = 0; round < rounds(3000); ++round) {
    const Fields fields = random_fields(random, 14, true);
    const Problem problem(fields);
    const Values order = random_order(fields, random);
    CHECK(edgemem::schedule::peak(problem, order) == literal_peak(fields, order));
  }
}

TEST(orders_that_are_none) {
  const Problem problem(diamond());
  CHECK(edgemem::schedule::peak(problem, Values{0, 2, 1, 3}) == 17);
  for (const Values& order : {Values{1, 0, 2, 3}, Values{0, 0, 1, 2}, Values{0, 1, 2}, Values{0, 1, 2, 4},
                              Values{0, 1, 2, -1}, Values{0, 1, 2, 3, 3}}) {
    CHECK_REFUSED(edgemem::schedule::peak(problem, order));
  }
}

TEST(problems_that_contradict_themselves) {
  const auto refused = [](const auto& change) {
    Fields fields = diamond();
    change(fields);
    CHECK_REFUSED(Problem(fields));
  };
  refused([](Fields& f) { f.before[0] = {3}; });
  refused([](Fields& f) { f.before[0] = {4}; });
  refused([](Fields& f) { f.before[1] = {0, 0}; });
  refused([](Fields& f) { f.reads[1] = {-1}; });
  refused([](Fields& f) { f.reads.pop_back(); });
  refused([](Fields& f) { f.writes[1] = {0}; });
  refused([](Fields& f) { f.writes[1] = {}; });
  refused([](Fields& f) { f.start = {2}; });
  refused([](Fields& f) { f.kept = {4}; });
  refused([](Fields& f) { f.guarded = {1, 1}; });
  refused([](Fields& f) { f.over[1] = {2}; });
  refused([](Fields& f) { f.over[1] = {0}; });
  refused([](Fields& f) { f.own[2] = -1; });
  refused([](Fields& f) { f.entry.pop_back(); });
  refused([](Fields& f) { f.opening = -1; });
  refused([](Fields& f) { f.size[0] = std::numeric_limits<std::int64_t>::max(); });
  refused([](Fields& f) { f.size[0] = f.size[1] = std::numeric_limits<std::int64_t>::max() / 6; });
}

TEST(greedy_orders_are_orders) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const Fields fields = random_fields(random, 20, true);
    const Problem problem(fields);
    const Values order = edgemem::schedule::greedy(problem);
    CHECK(edgemem::schedule::peak(problem, order) == literal_peak(fields, order));
  }
}

TEST(the_beam_proves_the_least_peak_of_all_orders) {
  Random random(3);
  int improved = 0;
  for (int round = 0; round < rounds(4000); ++round) {
    const Fields fields = random_fields(random, 7, round % 4 > 0);
    const Problem problem(fields);
    const std::int64_t least = least_peak_of_all_orders(fields);
    const Solved found = edgemem::schedule::beam(problem, {}, {kMuch});
    CHECK(literal_peak(fields, found.order) == least);
    CHECK(found.stopped == Stop::kProof && found.bound == least);
    const Solved known = edgemem::schedule::beam(problem, {found.order, least}, {kMuch});
    CHECK(known.order == found.order && known.stopped == Stop::kBound && known.work == 0);
    improved += edgemem::schedule::peak(problem, edgemem::schedule::greedy(problem)) > least ? 1 : 0;
  }
  CHECK(improved > rounds(4000) / 20);
}

TEST(a_chain_that_denies_another_operator_its_memory_is_not_free) {
  // The chain 1, 2 leaves less alive. But once 2 has read class 0, operator 3 is the last reader of that, and as it is
  // guarded, 3 may take neither it nor class 1. Classes 0 and 1 are as large as the result of 3.
  Fields fields;
  fields.before = {{}, {0}, {1}, {0}};
  fields.size = {10, 10, 2, 3, 1, 10, 5};
  fields.reads = {{}, {2}, {3, 0}, {0, 1}};
  fields.writes = {{2}, {3}, {4}, {5, 6}};
  fields.over = {{}, {}, {}, {0, 1}};
  fields.start = {0, 1};
  fields.kept = {4, 5, 6};
  fields.guarded = {0};
  for (Values* sizes : {&fields.own, &fields.inside, &fields.early, &fields.leaves, &fields.entry}) sizes->resize(4);
  const Problem problem(fields);
  CHECK(literal_peak(fields, edgemem::schedule::greedy(problem)) == 36);
  const Solved found = edgemem::schedule::beam(problem, {}, {kMuch});
  CHECK(found.bound == least_peak_of_all_orders(fields) && found.bound == 29);
}

TEST(sweeps_of_any_width_and_floor_say_what_holds) {
  Random random(4);
  int none = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    const Fields fields = random_fields(random, 7, round % 4 > 0);
    const Problem problem(fields);
    const std::int64_t least = least_peak_of_all_orders(fields);
    const std::int64_t ceiling = least + random.below(10);
    const std::int64_t floor = random.below(2) == 0 ? 0 : random.below(std::max<std::int64_t>(ceiling, 1));
    Budget budget(kMuch, {});
    const auto swept =
        edgemem::schedule::sweep(problem, {static_cast<std::size_t>(1 + random.below(4)), floor, ceiling}, budget);
    CHECK(swept.finished);
    if (swept.order) {
      CHECK(literal_peak(fields, *swept.order) == swept.peak && swept.peak < ceiling);
      if (swept.exhaustive && swept.peak > floor) CHECK(swept.peak == least);
    } else if (swept.exhaustive) {
      CHECK(least == ceiling);
      ++none;
    }
  }
  CHECK(none > rounds(3000) / 30);
}

TEST(more_work_is_never_worse_and_limits_hold) {
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    Fields fields = random_fields(random, 120, true);
    const Problem problem(fields);
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t work : {0, 100, 1000, 10'000, 100'000}) {
      const Solved found = edgemem::schedule::beam(problem, {}, {work});
      const std::int64_t reached = edgemem::schedule::peak(problem, found.order);
      CHECK(reached <= before && found.bound <= reached);
      if (found.stopped == Stop::kWork) CHECK(found.bound == 0);
      before = reached;
    }
    const Solved late = edgemem::schedule::beam(problem, {}, {kMuch, 1, 0.0});
    CHECK(late.stopped == Stop::kTime || late.stopped == Stop::kProof);
  }
}

TEST(what_the_caller_throws_ends_the_beam) {
  Random random(6);
  const Problem problem(random_fields(random, 4000, false));
  struct Interrupt {};
  bool ended = false;
  try {
    (void)edgemem::schedule::beam(problem, {}, {kMuch, 1, {}, [] { throw Interrupt{}; }});
  } catch (const Interrupt&) {
    ended = true;
  }
  CHECK(ended);
}
