// The kinds of memory, and the largest size of a request or an arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace edgemem {

enum class MemoryKind : int32_t { host = 0, device = 1 };

// More bytes than a process can map on any machine (2^56; less where pointers have 32 bits). Every size is compared
// with it before it becomes an int64_t, so that these sums cannot overflow: a block and its header, an arena and its
// guard page, the bytes that are alive at once.
inline constexpr int64_t kMostBytes = std::min(int64_t{1} << 56, int64_t{PTRDIFF_MAX} - (int64_t{1} << 20));

constexpr bool is_above_most(std::size_t bytes) { return uint64_t{bytes} > uint64_t{kMostBytes}; }

}  // namespace edgemem
