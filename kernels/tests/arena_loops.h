// What the tests of loops share: a loop that is started, its plan and its arena.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_runs.h"
#include "tests/check.h"

// A slot of lane 0 outside of any section, with what differs.
struct SlotOf {
  int64_t bytes = 0;
  int64_t offset = -1;
  int64_t other = -1;
  int64_t lane = 0;
  int64_t section = -1;
  int64_t space = -1;

  operator em_slot() const { return {bytes, offset, other, lane, section, space}; }
};

inline void* take(int64_t bytes, void* stream = nullptr, int device = EM_HOST_MEMORY) {
  return em_torch_malloc(bytes, device, stream);
}
inline void give(void* block, void* stream = nullptr, int device = EM_HOST_MEMORY) {
  em_torch_free(block, 0, device, stream);
}

inline em_slots table_of(const std::vector<em_slot>& slots, const std::vector<em_interval>& intervals, int64_t size) {
  return {size,
          64,
          slots.data(),
          static_cast<int64_t>(slots.size()),
          intervals.data(),
          static_cast<int64_t>(intervals.size()),
          intervals.empty() ? 0 : intervals.back().space + 1};
}

class StartedLoop {
 public:
  explicit StartedLoop(int32_t device = EM_HOST_MEMORY) : loop_(em_loop_create(device)) {
    CHECK(loop_ != nullptr && em_loop_start(loop_) == EM_OK);
  }
  ~StartedLoop() {
    em_loop_destroy(loop_);
    for (em_arena* arena : arenas_) {
      em_arena_release(arena);
    }
  }
  StartedLoop(const StartedLoop&) = delete;
  StartedLoop& operator=(const StartedLoop&) = delete;

  em_loop* get() const { return loop_; }
  void begin() { CHECK(em_loop_begin(loop_) == EM_OK); }
  void end() { CHECK(em_loop_end(loop_) == EM_OK); }
  void enter(int64_t section) { em_loop_enter(loop_, section); }

  // Replays these slots in a new arena, which is poisoned; gives the arena's base.
  char* replay(const std::vector<em_slot>& slots, int64_t size, const std::vector<em_interval>& intervals = {}) {
    arenas_.push_back(em_arena_create(size, 0));
    replay_in(arenas_.back(), slots, size, intervals);
    return static_cast<char*>(em_arena_base(arenas_.back()));
  }
  void replay_in(em_arena* arena, const std::vector<em_slot>& slots, int64_t size,
                 const std::vector<em_interval>& intervals = {}) {
    const em_slots table = table_of(slots, intervals, size);
    CHECK(em_loop_replay(loop_, &table, arena, EM_POISON) == EM_OK);
  }
  em_arena* arena() const { return arenas_.back(); }

  em_loop_stats last() const {
    em_loop_stats stats;
    em_loop_stats_get(loop_, &stats, nullptr);
    return stats;
  }
  em_loop_stats total() const {
    em_loop_stats stats;
    em_loop_stats_get(loop_, nullptr, &stats);
    return stats;
  }
  std::vector<em_loop_event> take_events() {
    const em_loop_event* start = nullptr;
    const int64_t count = em_loop_events(loop_, &start);
    std::vector<em_loop_event> events(start, start + count);
    em_loop_events_drop(loop_);
    return events;
  }

 private:
  em_loop* loop_;
  std::vector<em_arena*> arenas_;
};
