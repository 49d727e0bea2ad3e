// How long the blocks of a loop live: beyond its plan, the loop itself, and a fork.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_loops.h"
#include "tests/arena_process.h"
#include "tests/check.h"
#include "tests/registry.h"

TEST(blocks_outlive_the_plan_the_loop_and_the_arena) {
  const em_totals before = everything();
  void* old = nullptr;
  void* newer = nullptr;
  void* heap = nullptr;
  {
    StartedLoop loop;
    loop.replay({SlotOf{100, 0}}, 128);
    loop.begin();
    old = take(100);
    std::memset(old, 1, 100);
    loop.end();
    em_arena* first = loop.arena();
    loop.replay({SlotOf{100, 0}}, 128);
    loop.begin();
    newer = take(100);
    std::memset(newer, 2, 100);
    heap = take(50);
    std::memset(heap, 3, 50);
    loop.end();
    CHECK(em_arena_left(first) == 1 && em_arena_left(loop.arena()) == 1 && loop.last().arena_peak == 200);
    const em_slots table = table_of({}, {}, 0);
    CHECK(em_loop_replay(loop.get(), &table, first, 0) == EM_BUSY);  // it has a block
    em_loop_stop(loop.get());
    em_loop_stop(loop.get());
    give(take(70));
    CHECK(em_loop_begin(loop.get()) == EM_REFUSED && em_loop_pause(loop.get()) == EM_REFUSED);
  }
  CHECK(everything().arenas == before.arenas + 2);
  CHECK(static_cast<char*>(old)[99] == 1 && static_cast<char*>(newer)[99] == 2 && static_cast<char*>(heap)[49] == 3);
  std::thread([=] {
    give(old);
    give(newer);
    give(heap);
  }).join();
  CHECK(everything().arenas == before.arenas && everything().heap_live == before.heap_live);
}

TEST(another_plan_in_the_same_arena_spares_what_is_in_use) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0}}, 256);
  loop.begin();
  void* kept = take(100);
  std::memset(kept, 5, 100);
  loop.end();
  loop.replay_in(loop.arena(), {SlotOf{100, 64}, SlotOf{100, 128}}, 256);
  loop.begin();
  void* a = take(100);
  void* b = take(100);
  CHECK(a != base + 64 && b == base + 128);
  CHECK(static_cast<char*>(kept)[0] == 5 && static_cast<char*>(kept)[99] == 5 && base[100] != 0);
  loop.end();
  CHECK(loop.last().occupied == 1 && loop.last().hits == 1);
  for (void* block : {kept, a, b}) {
    give(block);
  }
}

TEST(pages_of_what_was_made_before_a_plan_go_back_when_it_is_freed) {
  constexpr int64_t kBytes = 1 << 20;
  StartedLoop loop;
  const auto make = [] {
    auto* block = static_cast<std::byte*>(take(kBytes));
    std::memset(block, 1, kBytes);
    return block;
  };
  loop.begin();
  std::byte* old = make();
  loop.end();
  std::byte* barrier = make();  // keeps the free blocks apart
  loop.replay({SlotOf{64, 0}}, 64);
  loop.begin();
  std::byte* newer = make();
  CHECK(em_loop_pause(loop.get()) == EM_OK);
  std::byte* paused = make();
  CHECK(em_loop_resume(loop.get()) == EM_OK);
  const auto left_after_free = [](std::byte* block) {
    give(block);
    return resident(block, kBytes);
  };
  CHECK(left_after_free(old) <= 2 * sysconf(_SC_PAGESIZE));
  CHECK(left_after_free(newer) >= kBytes);
  CHECK(left_after_free(paused) >= kBytes);
  loop.end();
  CHECK(loop.last().fallback_peak == 3 * kBytes && loop.total().fallback_peak == 3 * kBytes);
  give(barrier);
}

TEST(a_block_that_is_freed_again_frees_nothing_else) {
  StartedLoop loop;
  loop.replay({SlotOf{100, 0}, SlotOf{100, 128}}, 256);
  loop.begin();
  void* a = take(100);
  void* b = take(100);
  give(a);
  give(a);
  give(static_cast<char*>(b) + 1);
  CHECK(em_arena_left(loop.arena()) == 1);
  give(b);
  CHECK(em_arena_left(loop.arena()) == 0);
  loop.end();
}

TEST(freed_places_are_poisoned) {
  StartedLoop loop;
  const auto* base = reinterpret_cast<const unsigned char*>(loop.replay({SlotOf{100, 0}}, 128));
  loop.begin();
  CHECK(base[0] == 0xFF && base[127] == 0xCD);
  void* a = take(100);
  std::memset(a, 1, 100);
  give(a);
  CHECK(base[0] == 0xFF && base[99] == 0xCD);
  loop.end();
}

TEST(a_child_goes_on_with_the_loop_whatever_other_threads_did) {
  StartedLoop loop;
  loop.replay({SlotOf{100, 0}, SlotOf{100, 128}}, 256);
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  loop.begin();
  void* kept = take(100);
  std::memset(kept, 6, 100);
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&] {
      while (!over.load()) {
        em_loop_enter(loop.get(), 1);
        give(take(500));
      }
    });
  }
  for (int k = 0; k < 50; ++k) {
    CHECK(holds_in_child(
        [&] {
          void* second = take(100);
          const bool is_right = second == static_cast<char*>(kept) + 128 && static_cast<char*>(kept)[99] == 6;
          give(second);
          give(kept);
          give(take(77));
          return is_right && em_loop_end(loop.get()) == EM_OK;
        },
        20));
  }
  over.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  give(kept);
  loop.end();
}
