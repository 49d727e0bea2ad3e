// What serves the requests of a device that a loop gives no place: the heap, or a caching allocator.
#pragma once

#include <cstdint>

#include "arena/blocks.h"
#include "replay/edgemem_arena.h"

namespace edgemem {

// Not safe for several threads at once: the lock of the device is held.
class LoopFallback {
 public:
  // Null, with the error set, if there is no memory. `bytes` is above 0 and at most kMostBytes.
  virtual void* take(int64_t bytes, void* stream, Origin origin) noexcept = 0;

  // Who asked for the block that begins there, and its bytes; 0 bytes if it is none of a device's blocks in use. A
  // block that is shared stays withheld. The pages of a host block go back to the system if another run than `run`
  // asked for it; 0: they stay.
  virtual Freed give(void* block, int64_t run) noexcept = 0;

  // The block is in use on this stream, too: when it is freed, it is withheld. Nothing happens if there is none.
  virtual void share(void* block, void* stream) noexcept = 0;

  // Whether large segments serve large requests alone from now on. What lives long, such as an optimizer's state, then
  // lies in segments of its own, and those of short-lived tensors can be given back before an arena is taken.
  virtual void keep_large_whole(bool is_on) noexcept = 0;

  // Frees what was withheld.
  virtual void give_withheld() noexcept = 0;

  // Gives back what is kept for later requests; how many bytes.
  virtual int64_t empty_cache() noexcept = 0;
  virtual em_torch_memory memory() const noexcept = 0;

 protected:
  ~LoopFallback() = default;
};

// Of EM_HOST_MEMORY or a device's number; never destroyed, since blocks are freed while the process ends. Null if
// memory is short. The first call for a device comes with the lock of the device held.
LoopFallback* make_fallback(int32_t device) noexcept;

}  // namespace edgemem
