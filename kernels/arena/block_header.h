// What stands before every host block outside the arenas.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/blocks.h"

namespace edgemem {

inline constexpr int64_t kBlockAlignment = 64;  // also of what runtimes' kernels expect

struct alignas(kBlockAlignment) BlockHeader {
  int64_t size = 0;    // bytes of the piece in the pool, with this header; 0: the block is the system heap's
  int64_t before = 0;  // bytes of the piece before it in its region; 0 for the first
  int64_t bytes = 0;   // asked for
  Origin origin;
  uint32_t region = 0;    // number of the region
  bool is_free = false;   // the fields below matter only for free pieces
  bool is_clean = false;  // its whole pages have been given back, or were never touched

  void* payload() { return this + 1; }
  static BlockHeader* of(void* block) { return static_cast<BlockHeader*>(block) - 1; }
};
static_assert(sizeof(BlockHeader) == kBlockAlignment);

constexpr int64_t rounded_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace edgemem
