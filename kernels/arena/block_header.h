// What stands before every host block outside the arenas.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/blocks.h"
#include "arena/budget.h"

namespace edgemem {

inline constexpr int64_t kBlockAlignment = 64;  // also of what runtimes' kernels expect

struct alignas(kBlockAlignment) BlockHeader {
  int64_t size = 0;  // bytes of the piece in the pool, with this header; 0: the block is the system's
  // Bytes of the piece before it in its region; 0 for the first. Where `size` is 0: those that are mapped for it, or 0.
  int64_t before = 0;
  int64_t bytes = 0;  // asked for
  Origin origin;
  uint32_t region = 0;  // number of the region
  bool is_free = false;
  // Of a free piece: bytes from its begin that may hold pages. What is behind them was given back, or never used.
  int64_t touched = 0;
  em_budget* budget = nullptr;  // that a block in use counts in, or null

  void* payload() { return this + 1; }
  static BlockHeader* of(void* block) { return static_cast<BlockHeader*>(block) - 1; }
};
static_assert(sizeof(BlockHeader) == kBlockAlignment);

constexpr int64_t rounded_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

// Bytes of a block that is asked for as so many, with its header.
constexpr int64_t block_bytes(int64_t bytes) {
  return rounded_up(bytes, kBlockAlignment) + int64_t{sizeof(BlockHeader)};
}

}  // namespace edgemem
