// A replay that is recorded, too: the record is the stream of the run, whatever served it.
#include <cstdint>
#include <thread>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "replay/edgemem_arena.h"
#include "tests/arena_plans.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace {

struct Noted {
  int64_t size;  // 0 for a free
  int64_t request;
};

// A runtime that keeps its own list of what it did.
class Runtime {
 public:
  void take(int64_t bytes) {
    void* block = em_allocate(static_cast<std::size_t>(bytes));
    CHECK(block != nullptr);
    blocks_.push_back(block);
    stream_.push_back({bytes, requests_});
    alive_.push_back(requests_++);
  }
  void fail() {
    CHECK(em_allocate(SIZE_MAX) == nullptr);
    blocks_.push_back(nullptr);
    ++requests_;
  }
  void give(std::size_t k) {
    em_free(blocks_[static_cast<std::size_t>(alive_[k])]);
    stream_.push_back({0, alive_[k]});
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  void give_elsewhere(std::size_t k) {  // which is no event of the run
    std::thread([this, k] { em_free(blocks_[static_cast<std::size_t>(alive_[k])]); }).join();
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  void give_rest() {
    for (const int64_t request : alive_) {
      em_free(blocks_[static_cast<std::size_t>(request)]);
    }
    alive_.clear();
  }

  int64_t alive() const { return static_cast<int64_t>(alive_.size()); }
  int64_t requests() const { return requests_; }
  const std::vector<Noted>& stream() const { return stream_; }

 private:
  int64_t requests_ = 0;
  std::vector<void*> blocks_;   // by request
  std::vector<int64_t> alive_;  // requests
  std::vector<Noted> stream_;
};

int64_t record_of(em_context* context) {
  const em_event* events = nullptr;
  return em_events(context, &events);
}

bool is_record(em_context* context, const std::vector<Noted>& stream) {
  const em_event* events = nullptr;
  if (em_events(context, &events) != static_cast<int64_t>(stream.size())) {
    return false;
  }
  int64_t time = 0;
  for (const Noted& noted : stream) {
    if (events->size != noted.size || events->request != noted.request || events->time_ns < time ||
        events->thread == 0) {
      return false;
    }
    time = events->time_ns;
    ++events;
  }
  return true;
}

// Bytes that the program has from the system's heap; -1 where it does not tell.
int64_t heap_in_use() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) {
    return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
  }
#ifdef __GLIBC__
  const struct mallinfo2 all = mallinfo2();
  return static_cast<int64_t>(all.uordblks + all.hblkhd);
#else
  return -1;
#endif
}

}  // namespace

TEST(a_recorded_replay_notes_the_exact_stream_of_the_run) {
  Dice dice(50);
  em_context* context = em_context_create(EM_HOST);
  for (int round = 0; round < rounds(300); ++round) {
    const RandomPlan plan = random_plan(dice, 1 + dice.below(60));
    em_plan* made = plan.make().release();
    em_arena* arena = em_arena_create(plan.size, 0);
    CHECK(em_begin_replay(context, made, arena, EM_RECORD | (dice.one_in(2) ? EM_POISON : 0)) == EM_OK);
    Runtime runtime;
    for (const int64_t event : plan.events) {
      if (event > 0) {
        runtime.take(dice.one_in(10) ? event + 1 : dice.one_in(2) ? event : 1 + dice.below(event));
      } else if (runtime.alive() > 0) {
        const auto k = static_cast<std::size_t>(dice.below(runtime.alive()));
        dice.one_in(30) ? runtime.give_elsewhere(k) : runtime.give(k);
      }
      if (dice.one_in(40)) {
        runtime.fail();
      }
    }
    em_stats stats;
    CHECK(em_end(context, &stats) == EM_OK);
    runtime.give_rest();
    CHECK(is_record(context, runtime.stream()));
    CHECK(stats.events == static_cast<int64_t>(runtime.stream().size()) && stats.requests == runtime.requests());
    CHECK(stats.requests == stats.hits + stats.misses + stats.failed);
    em_arena_release(arena);
    em_plan_release(made);
  }
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_replay_is_recorded_only_when_asked_for_and_drops_the_record_before) {
  Session session(small_plan());
  CHECK(em_begin_record(session.context, kMany) == EM_OK);
  em_free(em_allocate(3));
  session.end();
  CHECK(record_of(session.context) == 2);
  session.begin();
  em_free(run_small());
  session.end();
  CHECK(record_of(session.context) == 0);
  session.begin(EM_RECORD);
  em_free(run_small());
  session.end();
  CHECK(record_of(session.context) == 8);
  session.begin(EM_POISON);  // the bit of another flag
  em_free(run_small());
  session.end();
  CHECK(record_of(session.context) == 0);
}

TEST(a_dropped_record_gives_its_memory_back) {
  constexpr int64_t kEvents = 400'000;
  em_context* context = em_context_create(EM_HOST);
  const int64_t before = heap_in_use();
  CHECK(em_begin_record(context, kMany) == EM_OK);
  for (int64_t k = 0; k < kEvents / 2; ++k) {
    em_free(em_allocate(8));
  }
  em_events_drop(context);  // a run is active: nothing happens
  em_events_drop(nullptr);
  CHECK(em_end(context, nullptr) == EM_OK);
  CHECK(record_of(context) == kEvents);
  constexpr auto kBytes = kEvents * static_cast<int64_t>(sizeof(em_event));
  CHECK(before < 0 || heap_in_use() - before >= kBytes);
  em_events_drop(context);
  CHECK(record_of(context) == 0 && heap_in_use() - before < kBytes / 10);
  em_events_drop(context);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  em_free(em_allocate(8));
  CHECK(em_end(context, nullptr) == EM_OK && record_of(context) == 2);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_run_that_is_refused_keeps_no_half_of_a_record) {
  Session session(small_plan());
  em_arena* small = em_arena_create(64, 0);
  session.begin(EM_RECORD);
  em_free(run_small());
  session.end();
  CHECK(em_begin_replay(session.context, session.plan, small, EM_RECORD) == EM_REFUSED);
  session.begin(EM_RECORD);
  session.end();
  CHECK(record_of(session.context) == 0);
  em_arena_release(small);
}
