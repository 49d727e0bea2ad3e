// Memory outside the arenas: what serves requests while a run is recorded, has deviated, or is none of ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/memory.h"

namespace edgemem {

// Which run asked for a block, and as which request. Run 0 is none.
struct Origin {
  int64_t run = 0;
  int64_t request = -1;
};

struct Freed {
  Origin origin;
  int64_t bytes = 0;
};

// The heap of one kind of memory. Every function may be called on any thread.
class Blocks {
 public:
  // Null, with the error set, if there is no memory or `bytes` is above kMostBytes.
  virtual void* take(std::size_t bytes, Origin origin) noexcept = 0;
  virtual Freed give(void* block) noexcept = 0;

 protected:
  ~Blocks() = default;
};

Blocks& blocks_of(MemoryKind kind);

// Host memory that a runtime keeps for good, freed as any host block is. Null if `bytes` is 0, and when take() fails.
void* reserve(std::size_t bytes) noexcept;

// Who asked for a host block.
Origin origin_of(void* block) noexcept;

// Whether an address lies in the pool of host blocks, where no arena of the library lies. Takes no lock.
bool is_in_pool(const void* address) noexcept;

// Gives a host block back that blocks_of() gave, as its give() does, and its pages to the system.
Freed give_with_pages(void* block) noexcept;

// Gives the free pages of the pool of host blocks back to the system; the number of bytes given back.
int64_t trim_pool() noexcept;

// Around a fork: no other thread is inside while the process is copied.
void lock_blocks();
void unlock_blocks();

// Where device memory comes from, with the signatures of cudaMalloc and cudaFree. Null for none. A block goes back to
// the function that was set together with the one it came from.
void set_device_source(int (*take)(void**, std::size_t), int (*give)(void*)) noexcept;

}  // namespace edgemem
