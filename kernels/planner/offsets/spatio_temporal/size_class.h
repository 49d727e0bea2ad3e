// Sizes that count as equal.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace edgemem::spatio_temporal {

// A number that grows with the size, equal for sizes between two neighbours of the ladder 2^k (1 + j / steps), j from 0
// to steps - 1; with 0 steps the size itself. `steps` is a power of two.
inline std::int64_t size_class(std::int64_t size, int steps) {
  if (steps == 0 || size <= 0) return size;
  const int octave = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  const int kept = std::bit_width(static_cast<unsigned>(steps)) - 1;
  const int low = std::max(0, octave - kept);
  return (static_cast<std::int64_t>(octave) << 32) + (size >> low);
}

}  // namespace edgemem::spatio_temporal
