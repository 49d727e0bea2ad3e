// The rules by which PyTorch's CUDA caching allocator serves requests (c10/cuda/CUDACachingAllocator.cpp describes
// them), over any source of segments.
//
//   request ── rounded to 512 bytes ──► small pool (<= 1 MiB) ──► segments of 2 MiB
//                                  └──► large pool            ──► < 10 MiB: segments of 20 MiB, else rounded to 2 MiB
//
//   segment   [ block in use | free block | block in use | free block            ]
//
// Each stream has its own free blocks. The smallest free block that is large enough serves a request, the one with the
// lowest address among equals. What is left of it becomes a free block of its own; a block that is freed merges with
// its free neighbours. A segment goes back to its source only when memory runs out, or when it is asked for.
//
// Everything about the blocks is kept outside of them, since nobody may touch the memory of a device. No locks: the
// caller lets one thread in at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "caching/segment_source.h"

namespace edgemem {

namespace caching {
struct AllocatorState;
}

// Of PYTORCH_CUDA_ALLOC_CONF, in bytes.
struct CachingSettings {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  static constexpr std::size_t kDivisionClasses = 16;  // powers of two from 1 MiB to 32 GiB

  // Of segments for requests from 1 to 10 MiB, and of the pages of expandable segments in the large pool.
  std::int64_t large_segment_size = std::int64_t{20} << 20;
  // Free blocks of this size and above are never split, and serve only requests that leave less than
  // `max_non_split_rounding` of them.
  std::int64_t max_split_size = kNoLimit;
  std::int64_t max_non_split_rounding = std::int64_t{20} << 20;
  // Requests are rounded up to this many equal steps between two powers of two: one number for each power from 1 MiB
  // up (the first for all below 2 MiB, the last for all from 32 GiB up). 0 or 1: to 512 bytes only.
  std::vector<std::int64_t> roundup_power2_divisions{};
  // Segments that grow at their end, in pages of 2 MiB (small pool) or `large_segment_size` (large pool). Needs a
  // source that reserves.
  bool expandable_segments = false;
};

struct CachingStats {
  std::int64_t requested = 0;  // bytes asked for, of blocks in use
  std::int64_t allocated = 0;  // bytes of blocks in use: rounded up, with what was not worth splitting off
  std::int64_t allocated_peak = 0;
  std::int64_t reserved = 0;  // bytes taken from the source
  std::int64_t reserved_peak = 0;
  std::int64_t times_taken = 0;  // segments in all; for expandable ones, times that pages were mapped
};

// A block as it lies in its segment.
struct BlockView {
  std::uintptr_t segment;  // address of the segment
  std::uintptr_t address;
  std::int64_t size;
  std::int64_t requested;  // bytes asked for; 0 if the block is free
  bool is_used;
  bool is_mapped;  // false: addresses of an expandable segment without memory
};

class CachingAllocator {
 public:
  // The source must outlive the allocator.
  explicit CachingAllocator(SegmentSource& source, CachingSettings settings = {});
  // Gives nothing back: the source may be gone before the process ends, as CUDA's driver is. Call release_cached()
  // before, if it matters.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // From the next request on; as CachingSettings::max_split_size, and not checked: `large_segment_size` or more.
  void set_max_split_size(std::int64_t bytes) noexcept;

  // The address of a block of at least `bytes` > 0 for this stream, aligned to 512 bytes as its segment is; 0 if there
  // is no memory.
  std::uintptr_t take(std::int64_t bytes, std::uint64_t stream) noexcept;

  // The block at this address is free from now, for its stream. False if no block in use begins there.
  bool give(std::uintptr_t address) noexcept;

  // Gives all segments back that have no block in use; how many bytes.
  std::int64_t release_cached() noexcept;

  const CachingStats& stats() const noexcept;

  // All blocks, by address. Throws std::bad_alloc.
  std::vector<BlockView> blocks() const;

 private:
  std::unique_ptr<caching::AllocatorState> state_;
};

}  // namespace edgemem
