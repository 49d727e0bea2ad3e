#include "replay/loop_arena.h"

namespace edgemem {

void LoopArena::leave() {
  is_entered_ = false;
  poison_ = false;
  arena_.leave();
}

void LoopArena::set_poison(bool poison) {
  poison_ = poison;
  if (poison) {
    ranges_.visit_gaps(arena_.size(), [this](int64_t begin, int64_t end) { arena_.poison(begin, end - begin); });
  }
}

void* LoopArena::take(int64_t offset, int64_t bytes, void* stream, Origin origin) noexcept {
  if (!arena_.is_open_to(stream)) {
    return nullptr;
  }
  if (!ranges_.add(offset, {offset + bytes, origin, false, false})) {
    return nullptr;
  }
  arena_.set_stream(stream);
  arena_.block_taken();
  return arena_.base() + offset;
}

void* LoopArena::take_within(std::span<const Interval> space, int64_t bytes, int64_t alignment, void* stream,
                             Origin origin) noexcept {
  const int64_t place = ranges_.best_fit(space, bytes, alignment);
  return place < 0 ? nullptr : take(place, bytes, stream, origin);
}

Freed LoopArena::give(void* block) noexcept {
  const auto range = find(block);
  if (range == ranges_.end() || range->second.is_withheld) {
    return {};
  }
  const Freed was{range->second.origin, range->second.end - range->first};
  if (range->second.is_shared) {
    range->second.is_withheld = true;
    ++withheld_;
  } else {
    remove(range);
  }
  return was;
}

void LoopArena::share(void* block, void* stream) noexcept {
  const auto range = find(block);
  if (range != ranges_.end() && stream != arena_.stream()) {
    range->second.is_shared = true;
  }
}

void LoopArena::give_withheld() noexcept {
  if (static_cast<std::size_t>(withheld_) == ranges_.size()) {
    arena_
        .forget_stream();  // nothing of any stream is going on in it; before the last block, with which it may go away
  }
  for (auto range = ranges_.begin(); withheld_ > 0 && range != ranges_.end();) {
    if (range->second.is_withheld) {
      --withheld_;
      range = remove(range);
    } else {
      ++range;
    }
  }
}

LiveRanges::Map::iterator LoopArena::remove(LiveRanges::Map::iterator range) noexcept {
  if (poison_) {
    arena_.poison(range->first, range->second.end - range->first);
  }
  const auto after = ranges_.remove(range);
  arena_.block_freed();
  return after;
}

}  // namespace edgemem
