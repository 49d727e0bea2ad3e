// The requests of one device that come through em_torch_malloc: its active loop, its fallback, and its blocks in
// arenas.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "arena/arena.h"
#include "replay/edgemem_arena.h"
#include "replay/loop_arena.h"
#include "replay/loop_fallback.h"

namespace edgemem {

//   em_torch_malloc ──► active loop? ──► place in its arena
//                            └─────────► fallback            (also without a loop, and while it is paused)
//   em_torch_free   ──► the arena that the block lies in, whichever loop made it ──► else the fallback
//
// There is one of each number, which is never destroyed: blocks outlive loops. Everything here and in a loop of the
// device is used with `mutex` held, except what says otherwise.
class LoopDevice {
 public:
  // The device of this number, or null if there is none.
  static LoopDevice* find(int32_t number) noexcept;

  // What em_torch_malloc, em_torch_free and the rest of em_torch_* do. They take the lock.
  void* allocate(int64_t bytes, void* stream) noexcept;
  void free(void* block, void* stream) noexcept;
  void share(void* block, void* stream) noexcept;
  int64_t empty_cache() noexcept;
  em_torch_memory fallback_memory() noexcept;

  std::mutex& mutex() { return mutex_; }
  int32_t number() const { return number_; }
  MemoryKind kind() const { return number_ == EM_HOST_MEMORY ? MemoryKind::host : MemoryKind::device; }

  em_loop* active() const { return active_; }
  void set_active(em_loop* loop) { active_ = loop; }

  // From the fallback; null, with the error set, if memory is short.
  void* take_fallback(int64_t bytes, void* stream, Origin origin) noexcept;

  // A loop enters the arena. Null, with the error and its code set, if it is in use or memory is short.
  LoopArena* enter(em_arena& arena, int32_t& code) noexcept;
  void leave(LoopArena& arena) noexcept;

  // The program waited for all streams.
  void give_withheld() noexcept;

 private:
  LoopArena* arena_of(const void* block) noexcept;
  void forget_unneeded() noexcept;

  int32_t number_ = EM_HOST_MEMORY;
  std::mutex mutex_;
  em_loop* active_ = nullptr;
  LoopFallback* fallback_ = nullptr;
  std::vector<std::unique_ptr<LoopArena>> arenas_;
};

// Around a fork: no other thread is inside while the process is copied. To be locked before arenas and blocks.
void lock_loops();
void unlock_loops();

}  // namespace edgemem
