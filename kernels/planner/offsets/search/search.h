// The offset problem solved as well as a given amount of work allows, with a proof where one is found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/common/records.h"
#include "planner/common/stop.h"

namespace edgemem {

struct SearchLimits {
  std::int64_t work = 10'000'000;  // steps: places filled or lifted; of each thread
  std::uint64_t seed = 1;
  std::optional<double> seconds;  // with it the result depends on the machine
  int threads = 1;
  std::function<void()> poll;  // called in the caller's thread some twenty times a second; what it throws ends all
};

struct SearchResult {
  std::vector<std::int64_t> offsets;  // bytes
  std::int64_t size = 0;              // bytes: the arena
  std::int64_t bound = 0;             // bytes: the best lower bound proved
  Stop stopped = Stop::kBound;        // kBound: at offset_lower_bound; kProof: at a better bound
  std::int64_t work = 0;              // steps done, by the thread that found it

  bool optimal() const { return size == bound; }
};

// Always returns a valid placement, the same one for the same records, work, seed and threads if no seconds are given,
// and never a larger one for more threads. Seconds end the call within a tenth more, whatever the number of records;
// a placement that is not found by then has all records end to end (around what is pinned or reserved), and the bound
// may be the largest record's size. Pinned records are where they should be and nothing is in a reserved range.
// Throws std::invalid_argument for records that `check` refuses, threads below 1, and seconds below 0.
SearchResult search_offsets(const Records& records, const SearchLimits& limits);

}  // namespace edgemem
