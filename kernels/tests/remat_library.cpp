// The simulator of rematerialisation as functions of C: tests/bench/remat/simulation.py builds and loads them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "remat/window.h"
#include "tests/remat_simulator.h"

namespace remat = edgemem::remat;

namespace {

constexpr std::size_t kColumns = 9;
constexpr std::size_t kErrorBytes = 256;

remat::Rules rules_of(const std::int64_t* values) {
  constexpr std::int64_t kMost[] = {2, 2, 1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < std::size(kMost); ++i) {
    if (values[i] < 0 || values[i] > kMost[i]) throw std::invalid_argument("a rule of rematerialisation is not known");
  }
  return {.heuristic = static_cast<remat::Heuristic>(values[0]),
          .search = static_cast<remat::Search>(values[1]),
          .fit = static_cast<remat::Fit>(values[2]),
          .partition = values[3] != 0,
          .in_place = values[4] != 0,
          .constants_at_ends = values[5] != 0,
          .small_apart = values[6] != 0};
}

}  // namespace

extern "C" {

// Columns in the order of edgemem::OperatorLog. Writes 13 counters and the mean fragmentation. `history` gets rows of
// step, subject, address in memory of malloc, or null. Gives 0, or 1 with a text in `error`.
int simulate_remat(const std::int64_t* const* columns, const std::int64_t* lengths, std::int64_t budget,
                   std::int64_t alignment, const std::int64_t* rules, double limit, int with_history,
                   std::int64_t* counters, double* fragmentation, std::int64_t** history, std::int64_t* history_length,
                   char* error) {
  try {
    edgemem::Column c[kColumns];
    for (std::size_t i = 0; i < kColumns; ++i) c[i] = {columns[i], static_cast<std::size_t>(lengths[i])};
    const edgemem::OperatorLog log{c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]};
    const edgemem::RematRun run =
        edgemem::simulate_remat(log, budget, alignment, rules_of(rules), limit, with_history != 0);
    const remat::MemoryCounts& counts = run.counts;
    const std::int64_t found[] = {static_cast<std::int64_t>(run.ended),
                                  run.event,
                                  run.short_of,
                                  run.recomputed_cost,
                                  run.recomputed_calls,
                                  counts.requests,
                                  counts.shortages,
                                  counts.searches,
                                  counts.evaluations,
                                  counts.search_ns,
                                  counts.evictions,
                                  counts.evicted_bytes,
                                  counts.peak};
    std::copy(std::begin(found), std::end(found), counters);
    *fragmentation = counts.fragmentation();
    const std::size_t bytes = run.history.size() * sizeof(std::int64_t);
    *history = bytes == 0 ? nullptr : static_cast<std::int64_t*>(std::malloc(bytes));
    if (*history != nullptr) std::memcpy(*history, run.history.data(), bytes);
    *history_length = *history == nullptr ? 0 : static_cast<std::int64_t>(run.history.size());
    return 0;
  } catch (const std::exception& e) {
    std::strncpy(error, e.what(), kErrorBytes - 1);
    return 1;
  }
}

void free_history(std::int64_t* history) { std::free(history); }

// The first and the last block of the cheapest window for a request; -1 and -1 if there is none.
void cheapest_window(const std::int64_t* size, const double* heuristic, const std::int64_t* is_free, std::int64_t count,
                     std::int64_t request, int per_byte, std::int64_t* window) {
  std::vector<remat::WindowBlock> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.push_back({size[i], heuristic[i], is_free[i] != 0});
  const remat::Window found =
      remat::cheapest_window(blocks, request, per_byte != 0 ? remat::Objective::kPerByte : remat::Objective::kSum);
  window[0] = found.found ? static_cast<std::int64_t>(found.first) : -1;
  window[1] = found.found ? static_cast<std::int64_t>(found.last) : -1;
}
}
