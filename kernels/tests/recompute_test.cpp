#include <cstdint>
#include <stdexcept>
#include <vector>

#include "planner/recompute/runs.h"
#include "planner/recompute/search.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/problem.h"
#include "tests/check.h"
#include "tests/order_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::recompute::Found;
using edgemem::recompute::Program;
using edgemem::recompute::search;
using edgemem::recompute::Wanted;
using edgemem::schedule::Fields;
using edgemem::schedule::Limits;
using edgemem::schedule::Numbers;
using edgemem::schedule::Problem;

// A program without views.
Program program_of(const Fields& fields) {
  const auto count = static_cast<std::int64_t>(fields.before.size());
  std::vector<std::vector<Numbers>> sources;
  for (const Numbers& reads : fields.reads) sources.emplace_back(reads.size(), Numbers{count});
  return Program(Problem(fields), sources, {}, false);
}

// 0 writes 10 bytes, which 1 and 3 read; 2 needs 15 of workspace while they are idle.
Fields idle() {
  return {{{}, {0}, {1}, {0, 2}},
          {10, 1, 20, 1},
          {{}, {0}, {1}, {0, 2}},
          {{0}, {1}, {2}, {3}},
          {{}, {}, {}, {}},
          {},
          {3},
          {},
          {},
          {0, 0, 15, 0},
          {0, 0, 0, 0},
          {0, 0, 0, 0},
          {0, 0, 0, 0},
          {0, 0, 0, 0}};
}

TEST(each_run_makes_a_new_copy) {
  const Program program = program_of(idle());
  CHECK(peak(program, Numbers{0, 1, 2, 3}) == 46);
  CHECK(peak(program, Numbers{0, 1, 2, 0, 3}) == 36);
  CHECK(peak(program, Numbers{0, 1, 0, 2, 3}) == 46);
}

TEST(runs_of_each_operator_once_are_an_order) {
  Random random(31);
  for (int round = 0; round < rounds(10'000) / 10; ++round) {
    const Fields fields = random_fields(random, 8, true);
    const Program program = program_of(fields);
    Values order;
    for (std::size_t k = 0; k < fields.before.size(); ++k) order.push_back(static_cast<std::int64_t>(k));
    CHECK(peak(program, order) == peak(program.problem, order));
  }
}

TEST(a_search_keeps_to_budget_cost_and_what_may_repeat) {
  const Program program = program_of(idle());
  const Numbers costs{5, 1, 1, 1};
  const Numbers order{0, 1, 2, 3};
  const std::vector<char> all(4, 1);
  const Limits limits{10'000};
  const Found found = search(program, costs, all, order, Wanted{36, 100, 8, true}, limits);
  CHECK(found.peak == 36 && found.cost == 13);
  CHECK((found.runs == std::vector<edgemem::schedule::Id>{0, 1, 2, 0, 3}));
  CHECK(search(program, costs, all, order, Wanted{36, 12, 8, true}, limits).peak == 46);
  CHECK(search(program, costs, {0, 1, 1, 1}, order, Wanted{36, 100, 8, true}, limits).peak == 46);
  CHECK(search(program, costs, all, order, Wanted{46, 100, 8, true}, limits).stopped == edgemem::Stop::kBound);
}

TEST(a_search_is_never_worse_than_its_start_and_counts_right) {
  Random random(32);
  for (int round = 0; round < rounds(3000) / 10; ++round) {
    const Fields fields = random_fields(random, 8, true);
    const Program program = program_of(fields);
    const std::size_t count = fields.before.size();
    Values order;
    for (std::size_t k = 0; k < count; ++k) order.push_back(static_cast<std::int64_t>(k));
    const std::int64_t before = peak(program, order);
    const Found found = search(program, Numbers(count, 1), std::vector<char>(count, 1), order,
                               Wanted{before * 3 / 4, 100, static_cast<std::int64_t>(count), true}, Limits{2'000});
    CHECK(found.peak <= before);
    CHECK(found.cost == static_cast<std::int64_t>(found.runs.size()));
    CHECK(peak(program, Numbers(found.runs.begin(), found.runs.end())) == found.peak);
  }
}

TEST(what_is_no_sequence_of_runs_is_refused) {
  const Program program = program_of(idle());
  CHECK_REFUSED(peak(program, Numbers{0, 2, 1, 3}));
  CHECK_REFUSED(peak(program, Numbers{0, 1, 2}));
  CHECK_REFUSED(peak(program, Numbers{0, 1, 2, 4}));
  const std::vector<char> all(4, 1);
  const Numbers order{0, 1, 2, 3};
  CHECK_REFUSED(search(program, Numbers{1, 1, 1}, all, order, Wanted{}, Limits{10}));
  CHECK_REFUSED(search(program, Numbers{1, 1, 1, -1}, all, order, Wanted{}, Limits{10}));
  CHECK_REFUSED(search(program, Numbers(4, 1), {1, 1}, order, Wanted{}, Limits{10}));
  const Fields fields = idle();
  CHECK_REFUSED(Program(Problem(fields), {}, {}, false));
  CHECK_REFUSED(Program(Problem(fields), {{}, {{5}}, {{4}}, {{4}, {4}}}, {}, false));
  CHECK_REFUSED(Program(Problem(fields), {{}, {{2}}, {{4}}, {{4}, {4}}}, {}, false));
}

}  // namespace
