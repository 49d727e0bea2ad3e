// Where the caching allocator takes its memory from.
#pragma once

#include <cstdint>

namespace edgemem {

// Addresses are numbers: what lies there may be memory of a device, or nothing at all (a simulation).
class SegmentSource {
 public:
  SegmentSource() = default;
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;
  virtual ~SegmentSource() = default;

  // The address of a new segment of `bytes` (a multiple of 1 MiB), aligned to 512 bytes at least; 0 if there is no
  // memory.
  virtual std::uintptr_t take(std::int64_t bytes) noexcept = 0;
  // A whole segment that `take` gave, with its size.
  virtual void give(std::uintptr_t address, std::int64_t bytes) noexcept = 0;

  // For expandable segments, which are simulated alone: addresses without memory; 0 if it has none.
  virtual std::uintptr_t reserve(std::int64_t /*bytes*/) noexcept { return 0; }
};

}  // namespace edgemem
