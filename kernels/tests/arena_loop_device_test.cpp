// Loops of a device, whose memory is a pair of functions here: streams, and blocks that several streams use.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_loops.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

int taken = 0;
int64_t limit = -1;  // segments that the source still gives; negative: any number

int take_segment(void** out, size_t bytes) {
  if (limit == 0) {
    return 2;
  }
  limit -= limit > 0;
  ++taken;
  *out = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *out == nullptr;
}

int give_segment(void* block) {
  --taken;
  std::free(block);
  return 0;
}

struct Source {
  Source() { em_cuda_source(take_segment, give_segment); }
  ~Source() {
    limit = -1;
    em_cuda_source(nullptr, nullptr);
  }
};

int streams[3];
void* const first = nullptr;  // the default stream
void* const second = &streams[1];
void* const third = &streams[2];

// A device of its own for each test: segments of earlier ones stay in their caches.
int next_device = 1;

struct DeviceMemory {
  explicit DeviceMemory(int64_t size) : base(static_cast<char*>(std::aligned_alloc(512, static_cast<size_t>(size)))) {
    arena = em_arena_wrap(base, size, EM_DEVICE);
    CHECK(arena != nullptr);
  }
  ~DeviceMemory() {
    em_arena_release(arena);
    std::free(base);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bool has(const void* block) const { return block >= base && block < base + em_arena_size(arena); }

  char* base;
  em_arena* arena = nullptr;
};

}  // namespace

TEST(a_device_without_a_source_has_no_memory) { CHECK(take(100, first, next_device++) == nullptr); }

TEST(the_fallback_of_a_device_keeps_streams_apart) {
  const Source source;
  const int device = next_device++;
  void* a = take(1000, first, device);
  CHECK(a != nullptr && reinterpret_cast<std::uintptr_t>(a) % 512 == 0);
  const int before = taken;
  give(a, first, device);
  void* b = take(1000, second, device);
  CHECK(b != a && taken == before + 1);  // a segment of its own
  void* c = take(1000, first, device);
  CHECK(c == a && taken == before + 1);
  give(b, second, device);
  give(c, first, device);
}

TEST(before_there_is_a_plan_what_lives_long_takes_nothing_of_large_segments) {
  const Source source;
  const int device = next_device++;
  const int64_t large = int64_t{64} << 20;
  const int64_t state = int64_t{4} << 20;
  give(take(large, first, device), first, device);
  void* a = take(state, first, device);  // without a session by PyTorch's rules: a part of the large one
  CHECK(em_torch_empty_cache(device) == 0);
  give(a, first, device);
  CHECK(em_torch_empty_cache(device) == large);
  StartedLoop loop(device);
  loop.begin();
  give(take(large, first, device), first, device);
  void* b = take(state, first, device);
  loop.end();
  CHECK(em_torch_empty_cache(device) == large);
  give(b, first, device);
}

TEST(only_the_stream_of_the_plan_gets_places) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(1024);
  StartedLoop loop(device);
  loop.replay_in(memory.arena, {SlotOf{100, 0, -1, 0}, SlotOf{512, 512, -1, 1}, SlotOf{100, 0, -1, 0}}, 1024);
  loop.begin();
  void* a = take(100, first, device);   // lane 0 has fewer bytes in the plan
  void* b = take(512, second, device);  // lane 1
  void* c = take(100, third, device);
  CHECK(!memory.has(a) && b == memory.base + 512 && !memory.has(c));
  loop.end();
  CHECK(loop.last().hits == 1 && loop.last().other_stream == 2 && loop.last().misses == 0);
  give(a, first, device);
  give(b, second, device);
  give(c, third, device);
}

TEST(a_device_s_lane_is_a_stream_whatever_thread_asks) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(1024);
  StartedLoop loop(device);
  CHECK(em_loop_record(loop.get(), 100) == EM_OK);
  loop.replay_in(memory.arena, {SlotOf{100, 0, -1, 0, 1}, SlotOf{200, 512, -1, 0, 2}}, 1024);
  loop.begin();
  loop.enter(1);
  void* a = take(100, second, device);
  void* b = nullptr;
  std::thread([&] {  // as autograd's thread
    loop.enter(2);
    b = take(200, second, device);
  })
      .join();
  CHECK(a == memory.base && b == memory.base + 512);
  loop.end();
  CHECK(loop.last().hits == 2);
  give(a, second, device);
  give(b, second, device);
  const std::vector<em_loop_event> events = loop.take_events();
  CHECK(events.size() == 4 && events[0].stream == 0 && events[0].thread == 0 && events[0].section == 1);
  CHECK(events[1].stream == 0 && events[1].thread == 1 && events[1].section == 2);
}

TEST(a_block_that_another_stream_uses_is_withheld_until_all_are_waited_for) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(512);
  StartedLoop loop(device);
  loop.replay_in(memory.arena, std::vector<em_slot>(5, SlotOf{512, 0}), 512);
  loop.begin();
  void* a = take(512, first, device);
  void* b = take(600, first, device);
  CHECK(a == memory.base && !memory.has(b));
  em_torch_record_stream(a, second);
  em_torch_record_stream(b, second);
  give(a, first, device);
  give(a, first, device);  // again: nothing
  give(b, first, device);
  void* c = take(512, first, device);
  void* d = take(600, first, device);
  CHECK(!memory.has(c) && c != b && d != b && em_arena_left(memory.arena) == 1);
  CHECK(loop.total().occupied == 1);
  em_loop_synchronized(loop.get());
  CHECK(em_arena_left(memory.arena) == 0);
  void* e = take(512, first, device);
  CHECK(e == memory.base);
  loop.end();
  for (void* block : {c, d, e}) {
    give(block, first, device);
  }
  void* f = take(600, first, device);
  CHECK(f == b || f == d || f == c);
  give(f, first, device);
}

TEST(a_block_s_own_stream_does_not_withhold_it) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(512);
  StartedLoop loop(device);
  loop.replay_in(memory.arena, {SlotOf{512, 0}}, 512);
  loop.begin();
  void* a = take(512, second, device);
  void* b = take(600, second, device);
  em_torch_record_stream(a, second);
  em_torch_record_stream(b, second);
  give(a, second, device);
  give(b, second, device);
  CHECK(em_arena_left(memory.arena) == 0 && take(600, second, device) == b);
  loop.end();
  give(b, second, device);
}

TEST(another_stream_enters_an_arena_only_after_all_are_waited_for) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(1024);
  StartedLoop loop(device);
  loop.replay_in(memory.arena, {SlotOf{512, 0, -1, 0}}, 1024);
  loop.begin();
  void* a = take(512, first, device);
  CHECK(a == memory.base);
  give(a, first, device);
  loop.end();
  loop.replay_in(memory.arena, {SlotOf{512, 0, -1, 1}}, 1024);  // a plan of the second stream, in the same arena
  loop.begin();
  void* b = take(512, second, device);
  CHECK(!memory.has(b));
  loop.end();
  CHECK(loop.last().occupied == 1);
  em_loop_synchronized(loop.get());
  loop.begin();
  void* c = take(512, second, device);
  CHECK(c == memory.base);
  loop.end();
  give(b, second, device);
  give(c, second, device);
}

TEST(an_arena_that_a_loop_comes_back_to_is_still_of_its_stream) {
  const Source source;
  const int device = next_device++;
  const DeviceMemory memory(512);
  const DeviceMemory other(512);
  StartedLoop loop(device);
  loop.replay_in(memory.arena, {SlotOf{512, 0, -1, 0}}, 512);
  loop.begin();
  give(take(512, first, device), first, device);  // the device may still be at work on it
  loop.end();
  loop.replay_in(other.arena, {SlotOf{512, 0, -1, 0}}, 512);
  loop.begin();
  loop.end();
  const std::vector<em_slot> of_second{SlotOf{512, 0, -1, 1}};
  loop.replay_in(memory.arena, of_second, 512);
  loop.begin();
  void* a = take(512, second, device);
  CHECK(!memory.has(a) && loop.total().occupied == 1);
  give(a, second, device);
  em_loop_synchronized(loop.get());
  loop.end();
  loop.begin();
  void* b = take(512, second, device);
  CHECK(b == memory.base);
  give(b, second, device);
  loop.end();
}

TEST(a_device_out_of_memory_gives_null) {
  const Source source;
  const int device = next_device++;
  StartedLoop loop(device);
  limit = 1;
  loop.begin();
  void* a = take(1000, first, device);
  void* b = take(100 << 20, first, device);
  CHECK(a != nullptr && b == nullptr && em_last_error()[0] != '\0');
  loop.end();
  CHECK(loop.last().failed == 1 && loop.last().misses == 1 && loop.last().requests == 2);
  give(a, first, device);
  give(b, first, device);
}

TEST(a_caller_that_does_not_look_for_null_gets_an_exception) {
  const Source source;
  const int device = next_device++;
  limit = 1;
  void* a = em_torch_malloc_or_throw(1000, device, first);
  CHECK(a != nullptr && em_torch_malloc_or_throw(0, device, first) == nullptr);
  bool thrown = false;
  try {
    em_torch_malloc_or_throw(100 << 20, device, first);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  give(a, first, device);
}

TEST(the_cache_of_a_device_goes_back_to_its_source) {
  const Source source;
  const int device = next_device++;
  em_torch_memory memory;
  const auto ask = [&] { em_torch_memory_get(device, &memory); };
  ask();
  CHECK(memory.reserved == 0 && em_torch_empty_cache(device) == 0);
  const int before = taken;
  void* a = take(1000, first, device);
  void* b = take(30 << 20, first, device);
  give(b, first, device);
  ask();
  CHECK(taken == before + 2 && memory.used == 1024 && memory.used_peak == 1024 + (30 << 20));
  CHECK(memory.reserved == 32 << 20 && memory.reserved_peak == 32 << 20);
  CHECK(em_torch_empty_cache(device) == 30 << 20 && taken == before + 1);
  give(a, first, device);
  CHECK(em_torch_empty_cache(device) == 2 << 20 && taken == before);
  ask();
  CHECK(memory.used == 0 && memory.reserved == 0 && memory.reserved_peak == 32 << 20);
  CHECK(em_torch_empty_cache(-2) == 0);
  em_torch_memory_get(-2, &memory);
  CHECK(memory.reserved_peak == 0);
  em_torch_memory_get(device, nullptr);
}

TEST(host_memory_has_no_streams) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0}}, 128);
  loop.begin();
  void* a = take(100, second);
  CHECK(a == base);
  em_torch_record_stream(a, third);
  give(a, third);
  CHECK(em_arena_left(loop.arena()) == 0);
  loop.end();
}
