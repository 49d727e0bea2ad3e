// The order of operators. Lists come as any sequences of numbers: a problem is made once and asked often.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "planner/common/budget.h"
#include "planner/schedule/beam.h"
#include "planner/schedule/bound.h"
#include "planner/schedule/improve.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/parts.h"
#include "planner/schedule/problem.h"
#include "planner/schedule/solved.h"
#include "python/arrays.h"
#include "python/signals.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace edgemem::python;
using edgemem::schedule::Fields;
using edgemem::schedule::Limits;
using edgemem::schedule::Numbers;
using edgemem::schedule::Problem;
using edgemem::schedule::Solved;
using edgemem::schedule::Start;

namespace {

// What the solvers give: the order, the bound proved, why it stopped, the work done.
std::tuple<Numbers, std::int64_t, const char*, std::int64_t> answer(Solved&& solved) {
  return {std::move(solved.order), solved.bound, edgemem::name(solved.stopped), solved.work};
}

}  // namespace

void bind_schedule(nb::module_& m) {
  using Rows = std::vector<Numbers>;
  nb::class_<Problem>(m, "OrderProblem", "edgemem.schedule.problem.OrderProblem, checked.")
      .def(
          "__init__",
          [](Problem* self, Rows before, Numbers size, Rows reads, Rows writes, Rows over, Numbers start, Numbers kept,
             Numbers lingers, Numbers guarded, Numbers own, Numbers inside, Numbers early, Numbers leaves,
             Numbers entry, std::int64_t opening) {
            const Fields fields{
                std::move(before), std::move(size),  std::move(reads),   std::move(writes),  std::move(over),
                std::move(start),  std::move(kept),  std::move(lingers), std::move(guarded), std::move(own),
                std::move(inside), std::move(early), std::move(leaves),  std::move(entry),   opening};
            without_gil([&] { return new (self) Problem(fields); });
          },
          "before"_a, "size"_a, "reads"_a, "writes"_a, "over"_a, "start"_a, "kept"_a, "lingers"_a, "guarded"_a, "own"_a,
          "inside"_a, "early"_a, "leaves"_a, "entry"_a, "opening"_a)
      .def(
          "peak",
          [](const Problem& self, const Numbers& order) {
            return without_gil([&] { return edgemem::schedule::peak(self, order); });
          },
          "order"_a, "The most that is alive at once in this order.")
      .def(
          "greedy", [](const Problem& self) { return without_gil([&] { return edgemem::schedule::greedy(self); }); },
          "The order that always goes on with what leaves the fewest bytes alive.")
      .def(
          "bound",
          [](const Problem& self, const Numbers& order, std::int64_t work) {
            edgemem::Budget budget(work, {});
            budget.poll(signals());
            return without_gil([&] { return edgemem::schedule::lower_bound(self, order, &budget); });
          },
          "order"_a, "work"_a,
          "A lower bound of the peak over all orders, found with so much work; of any order it looks at less.")
      .def(
          "beam",
          [](const Problem& self, std::int64_t work, std::optional<double> seconds, Numbers order, std::int64_t bound) {
            const Start start{std::move(order), bound};
            const Limits limits{work, 1, seconds, signals()};
            return answer(without_gil([&] { return edgemem::schedule::beam(self, start, limits); }));
          },
          "work"_a, "seconds"_a = nb::none(), "order"_a = Numbers(), "bound"_a = 0,
          "An order no worse than `order` and the greedy one, the bound proved, why it stopped, the work done. Ctrl-C\n"
          "ends it.")
      .def(
          "improve",
          [](const Problem& self, std::int64_t work, std::uint64_t seed, std::optional<double> seconds, Numbers order,
             std::int64_t bound) {
            const Start start{std::move(order), bound};
            const Limits limits{work, seed, seconds, signals()};
            return answer(without_gil([&] { return edgemem::schedule::improve(self, start, limits); }));
          },
          "work"_a, "seed"_a = 1, "seconds"_a = nb::none(), "order"_a = Numbers(), "bound"_a = 0,
          "The same by a local search from `order`, or the greedy one. Ctrl-C ends it.")
      .def(
          "parts",
          [](const Problem& self, std::int64_t work, std::optional<double> seconds, Numbers order, std::int64_t bound) {
            const Start start{std::move(order), bound};
            const Limits limits{work, 1, seconds, signals()};
            return answer(without_gil([&] { return edgemem::schedule::order_parts(self, start, limits); }));
          },
          "work"_a, "seconds"_a = nb::none(), "order"_a = Numbers(), "bound"_a = 0,
          "The same part by part, where the problem falls into parts. Ctrl-C ends it.");
}
