// What a loop refuses, and what it does when memory is short.
#include <cstdint>
#include <string>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_loops.h"
#include "tests/check.h"
#include "tests/registry.h"

TEST(one_loop_of_a_device_is_active_at_a_time) {
  StartedLoop loop;
  em_loop* other = em_loop_create(EM_HOST_MEMORY);
  CHECK(em_loop_start(other) == EM_BUSY && em_loop_start(loop.get()) == EM_BUSY);
  em_loop* of_device = em_loop_create(3);
  CHECK(em_loop_start(of_device) == EM_OK);
  em_loop_destroy(of_device);
  em_loop_stop(other);  // not active: changes nothing
  CHECK(em_loop_begin(loop.get()) == EM_OK && em_loop_begin(other) == EM_REFUSED);
  em_loop_stop(loop.get());
  CHECK(em_loop_start(other) == EM_OK);
  em_loop_destroy(other);
}

TEST(calls_out_of_order_are_refused) {
  em_loop* loop = em_loop_create(EM_HOST_MEMORY);
  CHECK(em_loop_begin(loop) == EM_REFUSED && em_loop_end(loop) == EM_REFUSED && em_loop_pause(loop) == EM_REFUSED);
  CHECK(em_loop_record(loop, 5) == EM_REFUSED && em_loop_resume(loop) == EM_REFUSED);
  CHECK(em_loop_start(loop) == EM_OK && em_loop_end(loop) == EM_REFUSED && em_loop_resume(loop) == EM_REFUSED);
  CHECK(em_loop_begin(loop) == EM_OK && em_loop_begin(loop) == EM_REFUSED && em_loop_end(loop) == EM_OK);
  CHECK(em_loop_end(loop) == EM_REFUSED && em_last_error()[0] != '\0');
  em_loop_destroy(loop);
  CHECK(em_loop_create(-2) == nullptr && em_loop_create(EM_MOST_DEVICES) == nullptr);
  CHECK(em_loop_start(nullptr) == EM_REFUSED && em_loop_events(nullptr, nullptr) == 0);
  CHECK(em_arena_create(-1, 0) == nullptr);
  const std::string said = em_last_error();
  em_loop_destroy(nullptr);
  CHECK(said == em_last_error());  // nothing failed
  em_loop_stop(nullptr);
  em_loop_enter(nullptr, 0);
  em_loop_stats_get(nullptr, nullptr, nullptr);
  CHECK(take(0) == nullptr && take(-1) == nullptr && take(INT64_MAX) == nullptr);
  CHECK(em_torch_malloc(8, -2, nullptr) == nullptr);
  give(nullptr);
}

TEST(slots_that_make_no_sense_are_refused) {
  StartedLoop loop;
  em_arena* arena = em_arena_create(256, 0);
  const auto status = [&](const std::vector<em_slot>& slots, const std::vector<em_interval>& parts = {},
                          int64_t size = 256, int64_t alignment = 64, int64_t spaces = 1) {
    em_slots table = table_of(slots, parts, size);
    table.alignment = alignment;
    table.spaces = spaces;
    return em_loop_replay(loop.get(), &table, arena, 0);
  };
  CHECK(status({SlotOf{64, 192}}) == EM_OK);
  CHECK(status({SlotOf{65, 192}}) == EM_REFUSED && status({SlotOf{64, 32}}) == EM_REFUSED);
  CHECK(status({SlotOf{64, -64}}) == EM_REFUSED && status({SlotOf{64, 0, 256}}) == EM_REFUSED);
  CHECK(status({SlotOf{64, -1, 0}}) == EM_REFUSED && status({SlotOf{0, 0}}) == EM_REFUSED);
  CHECK(status({SlotOf{INT64_MAX, 0}}) == EM_REFUSED && status({SlotOf{64, INT64_MAX / 64 * 64}}) == EM_REFUSED);
  CHECK(status({SlotOf{64, 0, -1, -1}}) == EM_REFUSED && status({SlotOf{64, 0, -1, EM_MOST_LANES}}) == EM_REFUSED);
  CHECK(status({SlotOf{64, 0, -1, 0, -2}}) == EM_REFUSED && status({SlotOf{64, -1, -1, 0, 0, 1}}) == EM_REFUSED);
  CHECK(status({SlotOf{64, 0, -1, 0, 0, 0}}) == EM_REFUSED && status({SlotOf{64, -1, -1, 0, 0, 0}}) == EM_OK);
  const std::vector<em_slot> dynamic{SlotOf{64, -1, -1, 0, 0, 0}};
  CHECK(status(dynamic, {{0, 0, 64}, {0, 64, 256}}) == EM_OK && status(dynamic, {{0, 0, 257}}) == EM_REFUSED);
  CHECK(status(dynamic, {{0, 64, 64}}) == EM_REFUSED && status(dynamic, {{0, 0, 64}, {0, 32, 96}}) == EM_REFUSED);
  CHECK(status(dynamic, {{1, 0, 64}}) == EM_REFUSED && status(dynamic, {{-1, 0, 64}}) == EM_REFUSED);
  CHECK(status({}, {}, -1) == EM_REFUSED && status({}, {}, 257) == EM_REFUSED);
  CHECK(status({}, {}, 256, 48) == EM_REFUSED && status({}, {}, 256, 0) == EM_REFUSED);
  CHECK(status({}, {}, 256, 64, EM_MOST_SPACES + 1) == EM_REFUSED && status({}, {}, 256, 64, -1) == EM_REFUSED);
  CHECK(status({}, {}, 256, int64_t{1} << 40, 0) == EM_REFUSED);  // no arena begins there
  CHECK(em_loop_replay(loop.get(), nullptr, arena, 0) == EM_REFUSED);
  em_arena_release(arena);
}

TEST(a_request_without_memory_is_null_and_counts_as_failed) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0}}, 128);
  loop.begin();
  em_fail_after(0);
  void* a = take(100);  // needs none
  void* b = take(200);
  em_fail_after(-1);
  CHECK(a == base && b == nullptr);
  give(a);
  loop.end();
  CHECK(loop.last().hits == 1 && loop.last().failed == 1 && loop.last().misses == 0);
}
