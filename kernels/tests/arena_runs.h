// What the arena's tests share: a small plan, and a runtime that does what it expects.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/check.h"

inline constexpr int64_t kMany = 1 << 20;

struct Plan {
  std::vector<int64_t> events;
  std::vector<int64_t> offsets;
  int64_t size;

  em_plan* make() const {
    return em_plan_create(events.data(), static_cast<int64_t>(events.size()), offsets.data(),
                          static_cast<int64_t>(offsets.size()), size, 64);
  }
};

// Two requests that meet, one that takes the first one's place, and a result on the heap.
inline Plan small_plan() { return {{100, 200, -1, 90, 40, -2, -3}, {0, 128, 0, -1}, 328}; }

// Does what small_plan expects; gives back the result's block.
inline void* run_small() {
  void* a = em_allocate(100);
  void* b = em_allocate(200);
  em_free(a);
  void* c = em_allocate(90);
  CHECK(c == a);
  void* result = em_allocate(40);
  em_free(b);
  em_free(c);
  return result;
}

inline int64_t live_heap() {
  em_totals all;
  em_totals_get(&all);
  return all.heap_live;
}

inline em_totals everything() {
  em_totals all;
  em_totals_get(&all);
  return all;
}

struct Session {
  em_context* context = em_context_create(EM_HOST);
  em_plan* plan;
  em_arena* arena;

  explicit Session(const Plan& expected, int32_t arena_flags = 0)
      : plan(expected.make()), arena(em_arena_create(expected.size, arena_flags)) {
    CHECK(context != nullptr && plan != nullptr && arena != nullptr);
  }
  ~Session() {
    CHECK(em_context_destroy(context) == EM_OK);
    em_plan_release(plan);
    em_arena_release(arena);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void begin(int32_t flags = 0) { CHECK(em_begin_replay(context, plan, arena, flags) == EM_OK); }
  em_stats end() {
    em_stats stats;
    CHECK(em_end(context, &stats) == EM_OK);
    return stats;
  }
};
