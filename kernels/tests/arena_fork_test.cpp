// fork() while other threads are inside the allocator: the child finds every lock free.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_process.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

constexpr int kForks = 100;
constexpr unsigned kSeconds = 20;  // a child that takes longer hangs

// Threads that do `work` again and again as long as this lives.
class Busy {
 public:
  template <typename Work>
  Busy(int count, Work work) {
    for (int k = 0; k < count; ++k) {
      threads_.emplace_back([this, work] {
        while (!over_.load(std::memory_order_relaxed)) {
          work();
        }
      });
    }
  }
  ~Busy() {
    over_.store(true);
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

bool serves_in_child() {
  std::vector<void*> blocks;
  for (std::size_t bytes = 1; bytes < 100'000; bytes *= 3) {
    blocks.push_back(em_allocate(bytes));
    if (blocks.back() == nullptr) {
      return false;
    }
    std::memset(blocks.back(), 7, bytes);
  }
  for (void* block : blocks) {
    em_free(block);
  }
  return em_trim() >= 0;
}

}  // namespace

TEST(a_child_allocates_whatever_other_threads_did_in_the_pool) {
  void* kept = em_allocate(1000);
  std::memset(kept, 9, 1000);
  const Busy busy(4, [] {
    void* small = em_allocate(100);
    void* large = em_allocate(70'000);
    em_free(small);
    em_trim();
    em_free(large);
  });
  for (int k = 0; k < kForks; ++k) {
    CHECK(holds_in_child(
        [kept] {
          const bool is_there = static_cast<char*>(kept)[0] == 9 && static_cast<char*>(kept)[999] == 9;
          em_free(kept);
          return is_there && serves_in_child();
        },
        kSeconds));
  }
  em_free(kept);
}

TEST(a_child_makes_and_frees_arenas_whatever_other_threads_did) {
  alignas(64) static char memory[4][256];
  std::atomic<int> next{0};
  const Busy busy(4, [&next] {
    thread_local char* const mine = memory[next.fetch_add(1) % 4];
    em_arena* arena = em_arena_wrap(mine, 256, EM_HOST);
    CHECK(arena != nullptr);
    em_arena_release(arena);
  });
  for (int k = 0; k < kForks; ++k) {
    CHECK(holds_in_child(
        [] {
          Session session(small_plan());
          session.begin(EM_RECORD);
          void* result = run_small();
          const bool is_planned = session.end().bail == -1;
          em_free(result);
          return is_planned && serves_in_child();
        },
        kSeconds));
  }
}

TEST(a_child_goes_on_with_the_run_of_its_thread) {
  Session session(small_plan());
  session.begin(EM_RECORD);
  void* a = em_allocate(100);
  void* b = em_allocate(200);
  std::memset(b, 4, 200);
  CHECK(holds_in_child([&] {
    em_free(a);
    void* c = em_allocate(90);
    const bool is_planned = c == a && static_cast<char*>(b)[199] == 4;
    em_free(em_allocate(40));
    em_free(b);
    em_free(c);
    return is_planned && session.end().hits == 3 && serves_in_child();
  }));
  em_free(a);
  em_free(b);
  CHECK(session.end().hits == 2);
}

// A process that forks is often itself a forked one.
TEST(a_grandchild_allocates) {
  const Busy busy(2, [] { em_free(em_allocate(3000)); });
  for (int k = 0; k < 10; ++k) {
    CHECK(holds_in_child([] { return serves_in_child() && holds_in_child([] { return serves_in_child(); }, kSeconds); },
                         kSeconds));
  }
}
