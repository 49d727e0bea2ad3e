// Which thread's requests a context serves, through the C ABI.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

TEST(one_run_at_a_time_in_an_arena_and_on_a_thread) {
  Session session(small_plan());
  session.begin();
  em_context* other = em_context_create(EM_HOST);
  em_arena* second = em_arena_create(328, 0);
  CHECK(em_begin_replay(other, session.plan, second, 0) == EM_BUSY);  // this thread has a run
  CHECK(em_begin_record(session.context, kMany) == EM_BUSY);
  CHECK(em_context_destroy(session.context) == EM_BUSY);
  std::thread([&] {
    CHECK(em_begin_replay(other, session.plan, session.arena, 0) == EM_BUSY);
    CHECK(em_begin_replay(other, session.plan, second, 0) == EM_OK);
    void* result = run_small();
    em_stats stats;
    CHECK(em_end(session.context, &stats) == EM_REFUSED);  // it is the other thread's
    CHECK(em_end(other, &stats) == EM_OK && stats.bail == -1);
    em_free(result);
  }).join();
  void* result = run_small();
  CHECK(session.end().bail == -1);
  em_free(result);
  CHECK(em_context_destroy(other) == EM_OK);
  em_arena_release(second);
}

TEST(eight_threads_replay_at_once) {
  const em_plan* shared = small_plan().make();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([shared, t] {
      em_plan* plan = const_cast<em_plan*>(shared);
      em_context* context = em_context_create(EM_HOST);
      em_arena* arena = em_arena_create(328, t % 2 == 0 ? EM_GUARD_PAGE : 0);
      for (int k = 0; k < 1000; ++k) {
        CHECK(em_begin_replay(context, plan, arena, EM_POISON) == EM_OK);
        void* a = em_allocate(100);
        std::memset(a, t, 100);
        void* b = em_allocate(k % 10 == 9 ? 300 : 200);
        std::memset(b, t, 200);
        CHECK(static_cast<char*>(a)[99] == t);
        em_free(a);
        void* c = em_allocate(90);
        void* result = em_allocate(40);
        em_free(b);
        em_free(c);
        em_stats stats;
        CHECK(em_end(context, &stats) == EM_OK);
        CHECK(stats.bail == (k % 10 == 9 ? 1 : -1) && stats.left == 0);
        em_free(result);
      }
      CHECK(em_context_destroy(context) == EM_OK);
      em_arena_release(arena);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  em_plan_release(const_cast<em_plan*>(shared));
}

TEST(a_block_freed_on_another_thread_is_known_as_the_arenas) {
  Session session(small_plan());
  session.begin();
  void* a = em_allocate(100);
  std::thread([a] { em_free(a); }).join();
  CHECK(em_arena_left(session.arena) == 0);
  void* b = em_allocate(200);
  em_free(em_allocate(90));  // the free of a did not come on this thread
  em_free(b);
  const em_stats stats = session.end();
  CHECK(stats.bail == 2 && stats.left == 0);
}

TEST(a_context_serves_only_the_thread_that_began) {
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  const int64_t before = everything().outside;
  std::thread([] { em_free(em_allocate(30)); }).join();
  CHECK(everything().outside == before + 1);
  em_free(em_allocate(40));
  CHECK(everything().outside == before + 1);
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK && stats.requests == 1 && stats.events == 2);
  em_free(em_allocate(50));
  CHECK(everything().outside == before + 2);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(a_thread_knows_its_active_context_of_each_kind) {
  CHECK(em_active(EM_HOST) == nullptr && em_active(EM_DEVICE) == nullptr);
  em_context* host = em_context_create(EM_HOST);
  em_context* device = em_context_create(EM_DEVICE);
  CHECK(em_begin_record(host, kMany) == EM_OK);
  CHECK(em_active(EM_HOST) == host && em_active(EM_DEVICE) == nullptr);
  CHECK(em_begin_record(device, kMany) == EM_OK);
  CHECK(em_active(EM_HOST) == host && em_active(EM_DEVICE) == device);
  std::thread([] { CHECK(em_active(EM_HOST) == nullptr && em_active(EM_DEVICE) == nullptr); }).join();
  CHECK(em_active(2) == nullptr && em_active(-1) == nullptr);
  CHECK(em_end(host, nullptr) == EM_OK);
  CHECK(em_active(EM_HOST) == nullptr && em_active(EM_DEVICE) == device);
  CHECK(em_end(device, nullptr) == EM_OK && em_active(EM_DEVICE) == nullptr);
  CHECK(em_context_destroy(host) == EM_OK && em_context_destroy(device) == EM_OK);
}

TEST(a_run_that_is_refused_leaves_its_thread_free) {
  Session session(small_plan());
  em_arena* small = em_arena_create(64, 0);
  CHECK(em_begin_replay(session.context, session.plan, small, 0) == EM_REFUSED);
  em_stats stats;
  CHECK(em_end(session.context, &stats) == EM_REFUSED);
  em_context* other = em_context_create(EM_HOST);
  CHECK(em_begin_record(other, kMany) == EM_OK);
  std::thread([other] { CHECK(em_begin_record(other, kMany) == EM_BUSY); }).join();
  CHECK(em_end(other, &stats) == EM_OK);
  // The refused thread is not bound to the context, so a run can begin on another one.
  std::thread([other] { CHECK(em_begin_record(other, kMany) == EM_OK && em_end(other, nullptr) == EM_OK); }).join();
  CHECK(em_context_destroy(other) == EM_OK);
  em_arena_release(small);
}

namespace {

// The number that a recording on the calling thread notes.
int64_t noted_thread() {
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  em_free(em_allocate(8));
  CHECK(em_end(context, nullptr) == EM_OK);
  const em_event* events = nullptr;
  CHECK(em_events(context, &events) == 2 && events[0].thread == events[1].thread);
  const int64_t thread = events[0].thread;
  CHECK(em_context_destroy(context) == EM_OK);
  return thread;
}

}  // namespace

TEST(every_thread_has_its_own_number_in_a_recording) {
  const int64_t here = noted_thread();
  CHECK(here != 0 && here == noted_thread());
  int64_t there = 0;
  std::thread([&there] { there = noted_thread(); }).join();
  CHECK(there != 0 && there != here);
}

#ifdef __linux__
TEST(the_thread_of_a_forked_process_has_the_number_of_its_own) {
  CHECK(noted_thread() == getpid());  // the main thread's number is that of the process
  const pid_t child = fork();
  if (child == 0) {
    _exit(noted_thread() == getpid() ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif
