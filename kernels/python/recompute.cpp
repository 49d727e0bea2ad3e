// Runs of operators, some of them several times.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "planner/recompute/runs.h"
#include "planner/recompute/search.h"
#include "planner/schedule/problem.h"
#include "planner/schedule/solved.h"
#include "python/arrays.h"
#include "python/signals.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace edgemem::python;
using edgemem::recompute::Found;
using edgemem::recompute::Program;
using edgemem::recompute::Wanted;
using edgemem::schedule::Limits;
using edgemem::schedule::Numbers;
using edgemem::schedule::Problem;

void bind_recompute(nb::module_& m) {
  nb::class_<Program>(m, "RecomputeProgram", "An OrderProblem whose operators may run several times.")
      .def(
          "__init__",
          [](Program* self, const Problem& problem, const std::vector<std::vector<Numbers>>& sources,
             const std::vector<Numbers>& direct, bool keeps_unread) {
            without_gil([&] { return new (self) Program(problem, sources, direct, keeps_unread); });
          },
          "problem"_a, "sources"_a, "direct"_a, "keeps_unread"_a)
      .def(
          "peak",
          [](const Program& self, const Numbers& runs) {
            return without_gil([&] { return edgemem::recompute::peak(self, runs); });
          },
          "runs"_a, "The most that is alive at once in this sequence of runs.")
      .def(
          "search",
          [](const Program& self, const Numbers& costs, const std::vector<bool>& repeatable, const Numbers& runs,
             std::int64_t budget, std::int64_t most_cost, std::int64_t least_cost, bool improve, std::int64_t work,
             std::uint64_t seed, std::optional<double> seconds) {
            const Wanted wanted{budget, most_cost, least_cost, improve};
            const Limits limits{work, seed, seconds, signals()};
            const std::vector<char> may_repeat(repeatable.begin(), repeatable.end());
            const Found found =
                without_gil([&] { return edgemem::recompute::search(self, costs, may_repeat, runs, wanted, limits); });
            return std::tuple{Numbers(found.runs.begin(), found.runs.end()), edgemem::name(found.stopped), found.work};
          },
          "costs"_a, "repeatable"_a, "runs"_a, "budget"_a, "most_cost"_a, "least_cost"_a, "improve"_a, "work"_a,
          "seed"_a = 1, "seconds"_a = nb::none(),
          "The cheapest runs within the budget that were found, or those with the lowest peak; why the search "
          "stopped;\n"
          "the work done. Ctrl-C ends it.");
}
