// Many threads at the pool at once, through the C ABI.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_plans.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

constexpr int kThreads = 8;

struct Piece {
  unsigned char* begin;
  std::size_t bytes;
  unsigned char pattern;
};

Piece take(Dice& dice) {
  const auto bytes = static_cast<std::size_t>(1 + dice.below(dice.one_in(20) ? 100'000 : 2000));
  const Piece piece{static_cast<unsigned char*>(em_allocate(bytes)), bytes,
                    static_cast<unsigned char>(dice.below(256))};
  CHECK(piece.begin != nullptr && reinterpret_cast<std::uintptr_t>(piece.begin) % 64 == 0);
  std::memset(piece.begin, piece.pattern, bytes);
  return piece;
}

void give(const Piece& piece) {
  CHECK(std::all_of(piece.begin, piece.begin + piece.bytes,
                    [&piece](unsigned char byte) { return byte == piece.pattern; }));
  em_free(piece.begin);
}

// Blocks that threads leave for each other.
class Exchange {
 public:
  // Leaves `piece` here, and gives what lay there before; that has no begin if nothing did.
  Piece swap(std::size_t at, const Piece& piece) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(pieces_[at % pieces_.size()], piece);
  }
  std::vector<Piece>& rest() { return pieces_; }

 private:
  std::mutex mutex_;
  std::vector<Piece> pieces_ = std::vector<Piece>(16);
};

void take_and_give(uint64_t seed, Exchange& exchange) {
  Dice dice(seed);
  std::vector<Piece> mine;
  for (int k = 0; k < 4000; ++k) {
    if (mine.size() < 40 && !dice.one_in(3)) {
      mine.push_back(take(dice));
    } else if (!mine.empty()) {
      const auto at = static_cast<std::size_t>(dice.below(static_cast<int64_t>(mine.size())));
      Piece piece = mine[at];
      mine[at] = mine.back();
      mine.pop_back();
      if (dice.one_in(2)) {  // another thread frees it
        piece = exchange.swap(static_cast<std::size_t>(dice.below(16)), piece);
      }
      if (piece.begin != nullptr) {
        give(piece);
      }
    }
    if (dice.one_in(500)) {
      em_trim();
    }
  }
  for (const Piece& piece : mine) {
    give(piece);
  }
}

}  // namespace

TEST(eight_threads_take_and_give_at_random) {
  const int64_t before = live_heap();
  Exchange exchange;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &exchange] { take_and_give(40 + t, exchange); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Piece& piece : exchange.rest()) {
    if (piece.begin != nullptr) {
      give(piece);
    }
  }
  CHECK(live_heap() == before);
}

// Runs of several threads whose misses come from the one pool, while others ask it without a run and trim it.
TEST(runs_that_deviate_share_the_pool_with_other_threads) {
  const int64_t before = live_heap();
  const em_plan* plan = small_plan().make();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, plan] {
      Dice dice(60 + t);
      em_context* context = em_context_create(EM_HOST);
      em_arena* arena = em_arena_create(328, 0);
      for (int k = 0; k < 300; ++k) {
        const bool is_run = t % 2 == 0;
        CHECK(!is_run || em_begin_replay(context, const_cast<em_plan*>(plan), arena, EM_RECORD) == EM_OK);
        std::vector<Piece> pieces;
        for (int j = 0; j < 8; ++j) {
          pieces.push_back(take(dice));
        }
        if (dice.one_in(20)) {
          em_trim();
        }
        for (const Piece& piece : pieces) {
          give(piece);
        }
        em_stats stats{};
        CHECK(!is_run || (em_end(context, &stats) == EM_OK && stats.events == 16 && stats.left == 0));
      }
      CHECK(em_context_destroy(context) == EM_OK);
      em_arena_release(arena);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  em_plan_release(const_cast<em_plan*>(plan));
  CHECK(live_heap() == before);
}
