#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>
#include <vector>

#include "planner/caching/simulation.h"
#include "python/arrays.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace edgemem::python;

namespace {

enum State : std::int64_t { kFree = 0, kUsed = 1, kUnmapped = 2 };

std::vector<std::int64_t> rows(const std::vector<edgemem::BlockView>& blocks) {
  std::vector<std::int64_t> values;
  values.reserve(4 * blocks.size());
  for (const edgemem::BlockView& block : blocks) {
    const State state = block.is_used ? kUsed : block.is_mapped ? kFree : kUnmapped;
    values.insert(values.end(), {static_cast<std::int64_t>(block.segment), block.size, block.requested, state});
  }
  return values;
}

}  // namespace

void bind_caching(nb::module_& m) {
  m.def(
      "simulate_caching",
      [](const Array& size, const Array& request, const Array& stream, std::int64_t large_segment_size,
         std::int64_t max_split_size, std::int64_t max_non_split_rounding, const Array& roundup_power2_divisions,
         bool expandable_segments) {
        const edgemem::Column divisions = column(roundup_power2_divisions);
        const edgemem::CachingSettings settings{.large_segment_size = large_segment_size,
                                                .max_split_size = max_split_size,
                                                .max_non_split_rounding = max_non_split_rounding,
                                                .roundup_power2_divisions = {divisions.begin(), divisions.end()},
                                                .expandable_segments = expandable_segments};
        const edgemem::RequestEvents events{column(size), column(request), column(stream)};
        edgemem::CachingRun run = without_gil([&] { return edgemem::simulate_caching(events, settings); });
        const edgemem::CachingStats& stats = run.stats;
        return std::make_tuple(result(std::move(run.requested)), result(std::move(run.allocated)),
                               result(std::move(run.reserved)), result({stats.reserved_peak, stats.times_taken}),
                               result(rows(run.blocks)));
      },
      "size"_a.noconvert(), "request"_a.noconvert(), "stream"_a.noconvert(), "large_segment_size"_a, "max_split_size"_a,
      "max_non_split_rounding"_a, "roundup_power2_divisions"_a.noconvert(), "expandable_segments"_a,
      "Bytes requested, allocated and reserved after each event of a trace; counters; rows of blocks at the end.");
}
