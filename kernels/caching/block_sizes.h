// How large a block and a segment are for a request: the numbers of PyTorch's CUDA caching allocator.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "caching/caching_allocator.h"

namespace edgemem {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kSmallestBlock = 512;  // every block is a multiple of it
inline constexpr std::int64_t kLargestSmall = kMiB;  // above it a request belongs to the large pool
inline constexpr std::int64_t kSmallSegment = 2 * kMiB;
inline constexpr std::int64_t kOwnSegment =
    10 * kMiB;  // a request of this size or above gets a segment of its own size
inline constexpr std::int64_t kRoundSegment = 2 * kMiB;

inline constexpr std::int64_t kMostRequested = std::int64_t{1} << 56;  // rounded up it is still an int64

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }

// Bytes of the block that serves a request of `bytes` > 0.
inline std::int64_t block_size(std::int64_t bytes, const CachingSettings& settings) {
  if (bytes < kSmallestBlock) return kSmallestBlock;
  if (!settings.roundup_power2_divisions.empty()) {
    const int power = 63 - std::countl_zero(static_cast<std::uint64_t>(bytes));
    const int most = static_cast<int>(CachingSettings::kDivisionClasses) - 1;
    const auto at = static_cast<std::size_t>(std::clamp(power - 20, 0, most));
    const std::int64_t divisions = settings.roundup_power2_divisions[at];
    if (divisions > 1 && bytes > kSmallestBlock * divisions) {
      return round_up(bytes, std::max<std::int64_t>((std::int64_t{1} << power) / divisions, 1));
    }
  }
  return round_up(bytes, kSmallestBlock);
}

// Bytes of the segment that is taken for a block of `size` bytes.
inline std::int64_t segment_size(std::int64_t size, const CachingSettings& settings) {
  if (size <= kLargestSmall) return kSmallSegment;
  return size < kOwnSegment ? settings.large_segment_size : round_up(size, kRoundSegment);
}

}  // namespace edgemem
