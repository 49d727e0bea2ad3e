// An arena that a loop places blocks in, and what lies in it: it stays until the last block is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arena/arena.h"
#include "replay/live_ranges.h"

namespace edgemem {

// Not safe for several threads at once: the lock of the device is held. The arena lives while a loop is in it or a
// block is in use, and this object no longer than that.
class LoopArena {
 public:
  explicit LoopArena(em_arena& arena) : arena_(arena) {}

  em_arena& arena() const { return arena_; }
  bool contains(const void* block) const { return arena_.contains(block); }
  bool is_needed() const { return is_entered_ || !ranges_.empty(); }

  // A loop is in it, having entered the arena; it leaves the arena, which may go away then.
  bool is_entered() const { return is_entered_; }
  void set_entered() { is_entered_ = true; }
  void leave();

  // From now on, what is not in use is filled with a pattern, or not.
  void set_poison(bool poison);

  // The block at this place in bytes for requests of this stream; null if something lies there, or memory is short.
  // Null for any other stream than that of the blocks before, also of those that were freed, until give_withheld().
  void* take(int64_t offset, int64_t bytes, void* stream, Origin origin) noexcept;

  // The same, at the place that best_fit() gives.
  void* take_within(std::span<const Interval> space, int64_t bytes, int64_t alignment, void* stream,
                    Origin origin) noexcept;

  // Who asked for the block that begins there, and its bytes; 0 bytes if there is none in use. A block that is shared
  // is withheld until give_withheld(). The arena may go away with its last block.
  Freed give(void* block) noexcept;

  // The block is in use on this stream, too. Nothing happens if there is no such block.
  void share(void* block, void* stream) noexcept;
  void give_withheld() noexcept;

 private:
  LiveRanges::Map::iterator find(void* block) { return ranges_.find(static_cast<std::byte*>(block) - arena_.base()); }
  LiveRanges::Map::iterator remove(LiveRanges::Map::iterator range) noexcept;

  em_arena& arena_;
  LiveRanges ranges_;
  bool is_entered_ = false;
  bool poison_ = false;
  int64_t withheld_ = 0;
};

}  // namespace edgemem
