// Which slot of a plan a request takes: a cursor in each lane.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "replay/loop_slots.h"

namespace edgemem {

// Where a thread is in the program. `entry` is another number each time it enters a section, 0 before the first time.
struct SectionEntry {
  int64_t section = -1;
  int64_t entry = 0;
};

// Works on numbers: it neither holds memory nor looks which thread calls. Not safe for several threads at once.
//
//   lane 0   [ a a a | b b | a a ]     sections a and b
//                      ^ cursor         entering a moves it to the second run of a
//
// A request that comes in addition, or two that come in another order, do not throw the rest out of step: the slot that
// was passed over last waits for its request.
//
// A lane stays where it is when its section is entered again in the middle of the section's slots: a section may make
// requests, let another one begin that makes none, and go on.
class LoopMatcher {
 public:
  // Follows these slots from now on; null: none. False, and nothing changed, if memory is short.
  bool follow(std::shared_ptr<const LoopSlots> slots) noexcept;

  // All lanes are at their first slots.
  void begin_iteration() noexcept;

  // The slot for the next request of the lane, of `bytes`, or null for a miss. The slot is larger or as large, or
  // dynamic.
  const LoopSlot* match(int64_t lane, SectionEntry entry, int64_t bytes) noexcept;

  const LoopSlots* slots() const { return slots_.get(); }

 private:
  static constexpr int64_t kWindow = 64;  // slots that are looked at for one of the same size

  struct Cursor {
    int64_t next = 0;
    int64_t passed = -1;  // the last slot that was next and was not taken by a request of its size
    int64_t entry = 0;    // that it was moved for
  };

  std::shared_ptr<const LoopSlots> slots_;
  std::vector<Cursor> cursors_;
};

}  // namespace edgemem
