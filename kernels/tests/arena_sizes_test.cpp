// Sizes that no address space holds: every path answers null and says why, and nothing else changes.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "replay/edgemem_arena.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

constexpr size_t kMost = size_t{INT64_MAX};
// Around the limits of size_t, of int64_t, and of both after a header and the rounding to 64.
constexpr size_t kImpossible[] = {SIZE_MAX,    SIZE_MAX - 1, SIZE_MAX - 63,        SIZE_MAX - 128, kMost + 2,
                                  kMost + 1,   kMost,        kMost - 63,           kMost - 127,    kMost - 128,
                                  kMost - 129, kMost / 2,    (size_t{1} << 56) + 1};

bool is_refused(void* block) { return block == nullptr && std::strstr(em_last_error(), "no memory") != nullptr; }

}  // namespace

TEST(an_impossible_size_is_null_without_a_run) {
  const em_totals before = everything();
  for (const size_t bytes : kImpossible) {
    CHECK(is_refused(em_allocate(bytes)));
  }
  const em_totals after = everything();
  CHECK(after.heap_live == before.heap_live && after.heap_peak == before.heap_peak);
}

TEST(an_impossible_size_is_a_failure_of_a_recording) {
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  for (const size_t bytes : kImpossible) {
    CHECK(is_refused(em_allocate(bytes)));
  }
  em_free(em_allocate(5));
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  const auto failed = static_cast<int64_t>(std::size(kImpossible));
  CHECK(stats.requests == failed + 1 && stats.failed == failed && stats.events == 2);
  CHECK(stats.peak == 5 && stats.heap_peak == 5 && stats.misses == 1);
  CHECK(em_context_destroy(context) == EM_OK);
}

// SIZE_MAX read as int64_t is -1, the code of the free of request 0.
TEST(an_impossible_size_is_not_taken_for_the_free_that_a_plan_expects) {
  for (const size_t bytes : kImpossible) {
    Session session({{100, 200, -1, -2}, {0, 128}, 328});
    session.begin();
    void* a = em_allocate(100);
    void* b = em_allocate(200);
    CHECK(is_refused(em_allocate(bytes)));
    em_free(a);
    em_free(b);
    const em_stats stats = session.end();
    CHECK(stats.requests == 3 && stats.hits == 2 && stats.failed == 1 && stats.bail == 2 && stats.left == 0);
  }
}

TEST(a_planned_heap_request_of_an_impossible_size_is_a_failure) {
  Session session({{INT64_MAX, -1}, {-1}, 64});
  session.begin();
  CHECK(is_refused(em_allocate(size_t{INT64_MAX})));
  const em_stats stats = session.end();
  CHECK(stats.failed == 1 && stats.misses == 0 && stats.peak == 0);
}

TEST(an_impossible_size_never_reaches_the_device) {
  static int64_t asked = 0;
  em_cuda_source(
      [](void** out, size_t) {
        ++asked;
        static char memory[1];
        *out = memory;  // a driver that reports success for any size
        return 0;
      },
      [](void*) { return 0; });
  em_context* context = em_context_create(EM_DEVICE);
  for (const bool recorded : {false, true}) {
    CHECK(!recorded || em_begin_record(context, kMany) == EM_OK);
    for (const size_t bytes : kImpossible) {
      CHECK(is_refused(em_cuda_alloc(bytes)));
    }
  }
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  CHECK(asked == 0 && stats.failed == static_cast<int64_t>(std::size(kImpossible)) && stats.events == 0);
  CHECK(em_context_destroy(context) == EM_OK);
  em_cuda_source(nullptr, nullptr);
}

TEST(a_device_block_goes_back_to_the_source_it_came_from) {
  static int returned[2] = {0, 0};
  const auto take = [](void** out, size_t size) {
    *out = std::malloc(size);
    return 0;
  };
  em_cuda_source(take, [](void* block) {
    ++returned[0];
    std::free(block);
    return 0;
  });
  void* first = em_cuda_alloc(8);
  em_cuda_source(take, [](void* block) {
    ++returned[1];
    std::free(block);
    return 0;
  });
  void* second = em_cuda_alloc(8);
  em_cuda_source(nullptr, nullptr);
  CHECK(em_cuda_alloc(8) == nullptr);
  em_cuda_free(first);
  CHECK(returned[0] == 1 && returned[1] == 0);
  em_cuda_free(second);
  CHECK(returned[0] == 1 && returned[1] == 1);
}

TEST(an_arena_of_an_impossible_size_is_refused) {
  const em_totals before = everything();
  alignas(64) static char memory[64];
  for (const int64_t size : {INT64_MAX, INT64_MAX - 4096, (int64_t{1} << 56) + 1, int64_t{-1}, INT64_MIN}) {
    for (const int32_t flags : {0, int32_t{EM_GUARD_PAGE}}) {
      CHECK(em_arena_create(size, flags) == nullptr);
      CHECK(std::strstr(em_last_error(), "impossible") != nullptr);
    }
    for (const int32_t kind : {EM_HOST, EM_DEVICE}) {
      CHECK(em_arena_wrap(memory, size, kind) == nullptr);
    }
  }
  auto* last = reinterpret_cast<void*>(UINTPTR_MAX - 63);
  CHECK(em_arena_wrap(last, 64, EM_DEVICE) == nullptr && em_arena_wrap(last, 4096, EM_DEVICE) == nullptr);
  CHECK(std::strstr(em_last_error(), "address") != nullptr);
  CHECK(em_arena_wrap(memory, 64, 2) == nullptr && em_arena_wrap(memory, 64, -1) == nullptr);
  const em_totals after = everything();
  CHECK(after.arenas == before.arenas && after.arena_bytes == before.arena_bytes);
}
