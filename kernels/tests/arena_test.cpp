// Plays a runtime: calls the allocator through the C ABI, as ONNX Runtime does.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_c_test.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

TEST(a_program_in_c_records_and_replays) { CHECK(record_and_replay() == 0); }

TEST(a_recording_holds_every_event_of_the_run_and_no_other) {
  void* before = em_allocate(10);
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  void* a = em_allocate(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 64 == 0);
  std::memset(a, 1, 1000);
  void* b = em_allocate(7);
  CHECK(em_allocate(0) == nullptr);
  em_free(before);
  em_free(a);
  em_free(nullptr);
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  em_free(b);
  const em_event* events = nullptr;
  CHECK(em_events(context, &events) == 3);
  CHECK(events[0].size == 1000 && events[0].request == 0);
  CHECK(events[1].size == 7 && events[1].request == 1);
  CHECK(events[2].size == 0 && events[2].request == 0);
  CHECK(events[0].time_ns <= events[1].time_ns && events[1].time_ns <= events[2].time_ns);
  CHECK(stats.requests == 2 && stats.misses == 2 && stats.hits == 0 && stats.failed == 0);
  CHECK(stats.peak == 1007 && stats.heap_peak == 1007);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_recording_stops_growing_and_says_so) {
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, 3) == EM_OK);
  for (int k = 0; k < 4; ++k) {
    em_free(em_allocate(8));
  }
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  const em_event* events = nullptr;
  CHECK(stats.events == 8 && stats.failed == 5 && em_events(context, &events) == 3);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_replay_serves_every_planned_request_from_the_arena) {
  Session session(small_plan());
  for (int k = 0; k < 3; ++k) {
    session.begin(EM_POISON);
    void* result = run_small();
    const em_stats stats = session.end();
    CHECK(stats.requests == 4 && stats.hits == 3 && stats.misses == 1 && stats.bail == -1);
    CHECK(stats.events == 7 && stats.left == 0 && stats.arena_top == 328 && stats.peak == 330);
    std::memset(result, k, 40);
    em_free(result);
  }
  CHECK(em_arena_left(session.arena) == 0);
}

TEST(poison_fills_the_arena_and_every_freed_range) {
  Session session(small_plan());
  session.begin(EM_POISON);
  auto* a = static_cast<unsigned char*>(em_allocate(100));
  CHECK(a[0] == 0xFF && a[1] == 0xCD && a[98] == 0xFF);
  auto* b = static_cast<unsigned char*>(em_allocate(200));
  std::memset(a, 1, 100);
  std::memset(b, 2, 200);
  em_free(a);
  CHECK(a[0] == 0xFF && a[99] == 0xCD && b[0] == 2);
  em_free(em_allocate(1));
  session.end();
  em_free(b);
}

TEST(a_larger_request_goes_to_the_heap_and_the_run_goes_on) {
  Session session(small_plan());
  session.begin();
  void* a = em_allocate(100);
  void* b = em_allocate(201);
  em_free(a);
  void* c = em_allocate(90);
  const auto* base = static_cast<char*>(em_arena_base(session.arena));
  CHECK(a == base && c == base);
  CHECK(b < base || b >= base + 328);
  std::memset(b, 3, 201);
  em_free(b);
  em_free(c);
  const em_stats stats = session.end();
  CHECK(stats.bail == 1 && stats.hits == 2 && stats.misses == 1 && stats.left == 0);
  session.begin();
  em_free(run_small());
  CHECK(session.end().hits == 3);
}

TEST(smaller_requests_get_the_places_of_the_planned_ones) {
  Session session(small_plan());
  session.begin(EM_POISON);
  auto* base = static_cast<char*>(em_arena_base(session.arena));
  void* a = em_allocate(1);
  void* b = em_allocate(17);
  CHECK(a == base && b == base + 128);
  em_free(a);
  void* c = em_allocate(89);
  CHECK(c == base);
  em_free(c);
  em_free(b);
  em_free(em_allocate(39));
  const em_stats stats = session.end();
  CHECK(stats.bail == -1 && stats.hits == 3 && stats.misses == 1);
  CHECK(stats.arena_top == 128 + 17 && stats.peak == 17 + 89 && stats.heap_peak == 39);
}

TEST(frees_in_another_order_deviate_only_where_a_place_is_still_taken) {
  Session session(small_plan());
  session.begin();
  void* a = em_allocate(100);
  void* b = em_allocate(200);
  em_free(b);  // later than a in the plan
  em_free(a);
  void* c = em_allocate(90);
  CHECK(c == a);
  em_free(c);
  CHECK(session.end().bail == -1);

  session.begin();
  a = em_allocate(100);
  b = em_allocate(200);
  em_free(b);
  c = em_allocate(90);
  CHECK(c != a);  // a is still in use
  std::memset(c, 1, 90);
  void* result = em_allocate(40);
  em_free(a);
  em_free(c);
  em_free(result);
  const em_stats stats = session.end();
  CHECK(stats.bail == 3 && stats.hits == 2 && stats.misses == 2 && stats.left == 0);
}

TEST(a_run_that_ends_early_is_no_deviation) {
  Session session(small_plan());
  session.begin();
  em_free(em_allocate(100));  // 200 was to come first
  CHECK(session.end().bail == -1);
  session.begin();
  CHECK(session.end().bail == -1);
}

TEST(more_requests_than_planned_deviate) {
  Session session(small_plan());
  session.begin();
  void* result = run_small();
  void* more = em_allocate(8);
  const em_stats stats = session.end();
  CHECK(stats.bail == 7 && stats.requests == 5);
  em_free(result);
  em_free(more);
}

TEST(a_planned_result_may_be_freed_in_the_run) {
  Session session({{100, 200, -1}, {0, -1}, 100});
  session.begin();
  void* a = em_allocate(100);
  em_free(em_allocate(200));
  em_free(a);
  CHECK(session.end().bail == -1);
}

TEST(an_arena_waits_for_a_block_that_outlives_its_run) {
  const em_totals before = everything();
  em_plan* plan = small_plan().make();
  em_context* context = em_context_create(EM_HOST);
  em_arena* arena = em_arena_create(328, 0);
  CHECK(em_begin_replay(context, plan, arena, 0) == EM_OK);
  auto* kept = static_cast<char*>(em_allocate(100));
  std::memset(kept, 5, 100);
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  CHECK(stats.left == 1 && stats.bail == -1);
  CHECK(em_begin_replay(context, plan, arena, EM_POISON) == EM_BUSY);
  CHECK(std::strstr(em_last_error(), "outlived") != nullptr);
  em_arena_release(arena);
  CHECK(everything().arenas == before.arenas + 1);
  CHECK(kept[0] == 5 && kept[99] == 5);
  std::thread([kept] { em_free(kept); }).join();
  CHECK(everything().arenas == before.arenas);
  CHECK(everything().arena_bytes == before.arena_bytes);
  em_plan_release(plan);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_thousand_contexts_come_and_go) {
  const em_totals before = everything();
  for (int k = 0; k < 1000; ++k) {
    Session session(small_plan());
    session.begin();
    void* result = run_small();
    CHECK(session.end().bail == -1);
    em_free(result);
  }
  std::vector<em_context*> open;
  for (int k = 0; k < 1000; ++k) {
    open.push_back(em_context_create(EM_HOST));
  }
  CHECK(everything().contexts == before.contexts + 1000);
  for (em_context* context : open) {
    CHECK(em_context_destroy(context) == EM_OK);
  }
  const em_totals after = everything();
  CHECK(after.contexts == before.contexts && after.arenas == before.arenas && after.heap_live == before.heap_live);
}

TEST(plans_that_would_corrupt_memory_are_refused) {
  const std::map<std::string, Plan> bad = {
      {"overlap", {{100, 200}, {0, 64}, 328}},    {"overlap", {{200, 100}, {64, 0}, 328}},
      {"overlap", {{100, 100}, {0, 0}, 328}},     {"outside", {{100}, {256}, 328}},
      {"outside", {{INT64_MAX}, {0}, 328}},       {"misaligned", {{100}, {32}, 328}},
      {"misaligned", {{100}, {-2}, 328}},         {"not alive", {{100, -2}, {0}, 328}},
      {"not alive", {{100, -1, -1}, {0}, 328}},   {"not alive", {{0}, {}, 328}},
      {"not alive", {{INT64_MIN}, {}, 328}},      {"more requests", {{100, 100}, {0}, 328}},
      {"2 places for 1", {{100}, {0, 128}, 328}}, {"has a size", {{100}, {0}, -1}},
  };
  for (const auto& [reason, plan] : bad) {
    CHECK(plan.make() == nullptr);
    CHECK(std::strstr(em_last_error(), reason.c_str()) != nullptr);
  }
  CHECK(em_plan_create(nullptr, 1, nullptr, 0, 10, 64) == nullptr);
  CHECK(em_plan_create(nullptr, 0, nullptr, 0, 10, 48) == nullptr);
}

TEST(an_arena_that_is_too_small_or_of_another_kind_is_refused) {
  Session session(small_plan());
  em_arena* small = em_arena_create(327, 0);
  CHECK(em_begin_replay(session.context, session.plan, small, 0) == EM_REFUSED);
  em_context* device = em_context_create(EM_DEVICE);
  CHECK(em_begin_replay(device, session.plan, session.arena, 0) == EM_REFUSED);
  alignas(64) static char memory[400];
  em_arena* crooked = em_arena_wrap(memory + 8, 390, EM_HOST);
  CHECK(em_begin_replay(session.context, session.plan, crooked, 0) == EM_REFUSED);
  CHECK(em_arena_wrap(memory + 100, 10, EM_HOST) == nullptr);  // inside the one above
  CHECK(em_arena_wrap(memory, 64, EM_HOST) == nullptr);
  em_arena_release(crooked);
  em_arena* own = em_arena_wrap(memory, 400, EM_HOST);
  CHECK(em_begin_replay(session.context, session.plan, own, 0) == EM_OK);
  void* result = run_small();
  CHECK(session.end().bail == -1);
  em_free(result);
  em_arena_release(own);
  em_arena_release(small);
  CHECK(em_context_create(7) == nullptr);
  CHECK(em_context_destroy(device) == EM_OK);
}

TEST(a_shortage_of_memory_is_an_answer_and_no_crash) {
  const int64_t before = live_heap();
  em_fail_after(0);
  CHECK(em_allocate(10) == nullptr);
  CHECK(em_arena_create(10, 0) == nullptr);
  em_fail_after(-1);
  CHECK(em_allocate(SIZE_MAX) == nullptr);
  CHECK(em_allocate(SIZE_MAX - 100) == nullptr);
  CHECK(em_arena_create(-1, 0) == nullptr);
  CHECK(em_arena_create(INT64_MAX, EM_GUARD_PAGE) == nullptr);

  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  em_fail_after(1);
  void* a = em_allocate(100);
  CHECK(a != nullptr && em_allocate(100) == nullptr);
  em_fail_after(-1);
  em_free(a);
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  CHECK(stats.failed == 1 && stats.requests == 2);
  CHECK(em_context_destroy(context) == EM_OK);

  Session session(small_plan());
  session.begin();
  em_fail_after(0);
  a = em_allocate(100);
  CHECK(a == em_arena_base(session.arena));  // the arena is there already
  CHECK(em_allocate(201) == nullptr);        // a deviation, and nothing to serve it
  em_free(a);
  em_fail_after(-1);
  stats = session.end();
  CHECK(stats.failed == 1 && stats.bail == 1 && stats.left == 0);
  CHECK(live_heap() == before);
}

TEST(the_guard_page_ends_a_process_that_writes_past_the_arena) {
  em_arena* arena = em_arena_create(4096 * 3 + 64, EM_GUARD_PAGE);
  auto* base = static_cast<volatile char*>(em_arena_base(arena));
  CHECK(reinterpret_cast<std::uintptr_t>(base) % 64 == 0);
  base[em_arena_size(arena) - 1] = 1;
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    base[em_arena_size(arena)] = 1;
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
  em_arena_release(arena);
}

TEST(parts_of_an_arena_serve_runs_at_once_and_never_lie_on_each_other) {
  const em_totals before = everything();
  em_arena* whole = em_arena_create(768, EM_PARTS);
  em_arena* parts[2] = {em_arena_part(whole, 0, 384), em_arena_part(whole, 384, 384)};
  CHECK(parts[0] != nullptr && parts[1] != nullptr);
  CHECK(em_arena_base(parts[1]) == static_cast<char*>(em_arena_base(whole)) + 384 && em_arena_size(parts[1]) == 384);
  CHECK(em_arena_part(whole, 0, 768) == nullptr && em_arena_part(whole, 320, 64) == nullptr);
  for (const int64_t offset : {int64_t{-64}, int64_t{704}, int64_t{768}, INT64_MAX}) {
    CHECK(em_arena_part(whole, offset, 128) == nullptr);
  }
  CHECK(em_arena_part(whole, 0, 0) == nullptr && em_arena_part(nullptr, 0, 64) == nullptr);
  CHECK(em_arena_part(parts[0], 0, 64) == nullptr);  // it was not made for that
  CHECK(everything().arenas == before.arenas + 1 && everything().arena_bytes == before.arena_bytes + 768);

  em_plan* plan = small_plan().make();
  em_context* contexts[2] = {em_context_create(EM_HOST), em_context_create(EM_HOST)};
  CHECK(em_begin_replay(contexts[0], plan, whole, 0) == EM_BUSY);  // only parts of it have runs
  CHECK(std::string_view(em_last_error()).find("EM_PARTS") != std::string_view::npos);
  CHECK(em_arena_create(64, 4) == nullptr && em_arena_create(64, -1) == nullptr);
  CHECK(std::string_view(em_last_error()).find("flags") != std::string_view::npos);
  CHECK(em_begin_replay(contexts[0], plan, parts[0], 0) == EM_OK);
  void* first = em_allocate(100);
  std::thread([&] {
    CHECK(em_begin_replay(contexts[1], plan, parts[1], EM_POISON) == EM_OK);
    void* second = em_allocate(100);
    CHECK(second == em_arena_base(parts[1]));
    CHECK(em_begin_replay(contexts[1], plan, parts[0], 0) == EM_BUSY);
    em_free(second);
    CHECK(em_end(contexts[1], nullptr) == EM_OK);
  }).join();
  CHECK(first == em_arena_base(parts[0]));
  CHECK(em_end(contexts[0], nullptr) == EM_OK);

  // The block keeps its part, and that keeps the arena.
  em_arena_release(parts[0]);
  CHECK(em_arena_part(whole, 0, 768) == nullptr);
  em_arena_release(parts[1]);
  em_arena_release(whole);
  CHECK(everything().arenas == before.arenas + 1);
  std::memset(first, 1, 100);
  em_free(first);
  CHECK(everything().arenas == before.arenas && everything().arena_bytes == before.arena_bytes);
  for (em_context* context : contexts) {
    CHECK(em_context_destroy(context) == EM_OK);
  }
  em_plan_release(plan);
}
