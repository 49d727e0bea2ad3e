// What the caching allocator would do with a recorded stream of requests.
#pragma once

#include <cstdint>
#include <vector>

#include "caching/caching_allocator.h"
#include "planner/common/records.h"

namespace edgemem {

// Columns of one length. An event with a size asks for so many bytes, and makes the next request, counted from 0; one
// with size 0 frees `request`.
struct RequestEvents {
  Column size;
  Column request;
  Column stream;
};

struct CachingRun {
  // Bytes after each event, of `CachingStats`. They end before the event that found no memory, if there is one.
  std::vector<std::int64_t> requested;
  std::vector<std::int64_t> allocated;
  std::vector<std::int64_t> reserved;
  CachingStats stats;             // at the end
  std::vector<BlockView> blocks;  // at the end, by address
};

// Segments have ascending addresses, in the order in which they are taken.
// Throws std::invalid_argument for events that are no trace, and settings that the allocator refuses.
CachingRun simulate_caching(const RequestEvents& events, const CachingSettings& settings);

}  // namespace edgemem
