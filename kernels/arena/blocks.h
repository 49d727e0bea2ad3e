// Memory outside the arenas: what serves requests while a run is recorded, has deviated, or is none of ours.
#pragma once

#include <cstddef>
#include <cstdint>

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

// A kind of memory. Blocks may be freed on any thread.
class Blocks {
 public:
  virtual void* take(std::size_t bytes, Origin origin) noexcept = 0;  // null if there is no memory
  virtual Origin origin(void* block) noexcept = 0;
  virtual Freed give(void* block) noexcept = 0;

 protected:
  ~Blocks() = default;
};

Blocks& host_blocks();
Blocks& device_blocks();

// Bytes that a runtime keeps for good; freed as any host block is.
void* reserve(std::size_t bytes) noexcept;

void set_device_source(int (*take)(void**, std::size_t), int (*give)(void*)) noexcept;

}  // namespace edgemem
