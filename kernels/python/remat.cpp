#include <nanobind/stl/tuple.h>

#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/remat/simulator.h"
#include "python/arrays.h"
#include "remat/window.h"

namespace nb = nanobind;
namespace remat = edgemem::remat;
using namespace nb::literals;
using namespace edgemem::python;

namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

remat::Rules rules_of(edgemem::Column values) {
  constexpr std::int64_t kMost[] = {2, 2, 1, 1, 1, 1, 1};
  bool holds = values.size() == std::size(kMost);
  for (std::size_t i = 0; holds && i < values.size(); ++i) holds = values[i] >= 0 && values[i] <= kMost[i];
  if (!holds) throw std::invalid_argument("rules of rematerialisation are seven numbers, each in its range");
  return {.heuristic = static_cast<remat::Heuristic>(values[0]),
          .search = static_cast<remat::Search>(values[1]),
          .fit = static_cast<remat::Fit>(values[2]),
          .partition = values[3] != 0,
          .in_place = values[4] != 0,
          .constants_at_ends = values[5] != 0,
          .small_apart = values[6] != 0};
}

}  // namespace

void bind_remat(nb::module_& m) {
  m.def(
      "simulate_remat",
      [](const Array& cost, const Array& reads_offsets, const Array& reads, const Array& writes_offsets,
         const Array& writes, const Array& takes, const Array& size, const Array& event_kind, const Array& event_index,
         std::int64_t budget, std::int64_t alignment, const Array& rules, double limit, bool with_history) {
        const edgemem::OperatorLog log{column(cost),           column(reads_offsets), column(reads),
                                       column(writes_offsets), column(writes),        column(takes),
                                       column(size),           column(event_kind),    column(event_index)};
        const remat::Rules chosen = rules_of(column(rules));
        edgemem::RematRun run =
            without_gil([&] { return edgemem::simulate_remat(log, budget, alignment, chosen, limit, with_history); });
        const remat::MemoryCounts& counts = run.counts;
        return std::make_tuple(
            result({static_cast<std::int64_t>(run.ended), run.event, run.short_of, run.recomputed_cost,
                    run.recomputed_calls, counts.requests, counts.shortages, counts.searches, counts.evaluations,
                    counts.search_ns, counts.evictions, counts.evicted_bytes, counts.peak}),
            counts.fragmentation(), result(std::move(run.history)));
      },
      "cost"_a.noconvert(), "reads_offsets"_a.noconvert(), "reads"_a.noconvert(), "writes_offsets"_a.noconvert(),
      "writes"_a.noconvert(), "takes"_a.noconvert(), "size"_a.noconvert(), "event_kind"_a.noconvert(),
      "event_index"_a.noconvert(), "budget"_a, "alignment"_a, "rules"_a.noconvert(), "limit"_a,
      "with_history"_a = false,
      "An operator log under a memory budget: counters, fragmentation, rows of what happened.");
  m.def(
      "cheapest_window",
      [](const Array& size, const Doubles& heuristic, const Array& is_free, std::int64_t request, bool per_byte) {
        if (size.size() != heuristic.size() || size.size() != is_free.size()) {
          throw std::invalid_argument("the columns of a layout differ in length");
        }
        std::vector<remat::WindowBlock> blocks;
        std::int64_t room = std::numeric_limits<std::int64_t>::max();
        for (std::size_t i = 0; i < size.size(); ++i) {
          const std::int64_t bytes = size.data()[i];
          if (bytes <= 0 || bytes > room) throw std::invalid_argument("a layout has impossible sizes");
          room -= bytes;
          blocks.push_back({bytes, heuristic.data()[i], is_free.data()[i] != 0});
        }
        if (request <= 0) throw std::invalid_argument("a request for no bytes");
        const remat::Window window =
            remat::cheapest_window(blocks, request, per_byte ? remat::Objective::kPerByte : remat::Objective::kSum);
        if (!window.found) return std::make_tuple(std::int64_t{-1}, std::int64_t{-1});
        return std::make_tuple(static_cast<std::int64_t>(window.first), static_cast<std::int64_t>(window.last));
      },
      "size"_a.noconvert(), "heuristic"_a.noconvert(), "is_free"_a.noconvert(), "request"_a, "per_byte"_a = false,
      "First and last block of the cheapest window for a request, (-1, -1) if there is none.");
}
