// Random programs on several threads against random plans: whatever a plan says, no two living blocks overlap, what is
// in them stays, and the counts add up.
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_loops.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t end) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end)); }
  bool one_in(int64_t chances) { return below(chances) == 0; }

 private:
  std::mt19937_64 engine_;
};

constexpr int64_t kSize = 4096;
constexpr std::array<int64_t, 6> kSizes{24, 64, 100, 192, 300, 700};

int64_t random_size(Dice& dice) { return kSizes[static_cast<std::size_t>(dice.below(kSizes.size()))]; }

struct Block {
  unsigned char* start;
  int64_t bytes;
  unsigned char mark;
};

// The blocks in use, as the program knows them: shares nothing with what is tested.
class Ledger {
 public:
  void add(const Block& block) {
    const auto begin = reinterpret_cast<std::uintptr_t>(block.start);
    const std::scoped_lock lock(mutex_);
    const auto after = ends_.lower_bound(begin);
    CHECK(after == ends_.end() || after->first >= begin + static_cast<std::uintptr_t>(block.bytes));
    CHECK(after == ends_.begin() || std::prev(after)->second <= begin);
    ends_[begin] = begin + static_cast<std::uintptr_t>(block.bytes);
  }
  void remove(const Block& block) {
    const std::scoped_lock lock(mutex_);
    ends_.erase(reinterpret_cast<std::uintptr_t>(block.start));
  }
  int64_t count_in(const char* base, int64_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    const std::scoped_lock lock(mutex_);
    return std::distance(ends_.lower_bound(begin), ends_.lower_bound(begin + static_cast<std::uintptr_t>(size)));
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> ends_;
};

// Blocks that any thread may free.
class Pile {
 public:
  void put(Block block) {
    const std::scoped_lock lock(mutex_);
    blocks_.push_back(block);
  }
  bool get(Dice& dice, Block& block) {
    const std::scoped_lock lock(mutex_);
    if (blocks_.empty()) {
      return false;
    }
    std::swap(blocks_[static_cast<std::size_t>(dice.below(static_cast<int64_t>(blocks_.size())))], blocks_.back());
    block = blocks_.back();
    blocks_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
};

void check_contents(const Block& block) {
  for (int64_t k = 0; k < block.bytes; ++k) {
    CHECK(block.start[k] == block.mark);
  }
}

struct Program {
  Ledger ledger;
  Pile pile;
  em_loop* loop;

  void take_one(Dice& dice) {
    const int64_t bytes = random_size(dice);
    auto* start = static_cast<unsigned char*>(take(bytes));
    CHECK(start != nullptr);
    const Block block{start, bytes, static_cast<unsigned char>(dice.below(256))};
    ledger.add(block);
    std::memset(start, block.mark, static_cast<std::size_t>(bytes));
    pile.put(block);
  }
  void give_one(Dice& dice) {
    Block block;
    if (pile.get(dice, block)) {
      check_contents(block);
      ledger.remove(block);
      give(block.start);
    }
  }
  void work(uint64_t seed, int64_t steps) {
    Dice dice(seed);
    for (int64_t k = 0; k < steps; ++k) {
      if (dice.one_in(8)) {
        em_loop_enter(loop, dice.below(4) - 1);
      }
      if (dice.one_in(2)) {
        take_one(dice);
      } else {
        give_one(dice);
      }
    }
  }
};

// Places at random, which overlap: a plan may say what it wants.
std::vector<em_slot> random_slots(Dice& dice, int64_t spaces) {
  std::vector<em_slot> slots;
  for (int64_t lane = 0; lane < 3; ++lane) {
    int64_t section = -1;
    for (int64_t k = dice.below(60); k > 0; --k) {
      section = dice.one_in(4) ? dice.below(4) - 1 : section;
      SlotOf slot{random_size(dice), -1, -1, lane, section, -1};
      if (dice.one_in(6)) {
        slot.space = dice.below(spaces);
      } else if (!dice.one_in(6)) {
        slot.offset = dice.below((kSize - slot.bytes) / 64 + 1) * 64;
        slot.other = dice.one_in(2) ? dice.below((kSize - slot.bytes) / 64 + 1) * 64 : -1;
      }
      slots.push_back(slot);
    }
  }
  return slots;
}

std::vector<em_interval> random_spaces(Dice& dice, int64_t spaces) {
  std::vector<em_interval> intervals;
  for (int64_t space = 0; space < spaces; ++space) {
    int64_t reached = dice.below(1000);
    do {
      const int64_t begin = reached + dice.below(500);
      reached = begin + 1 + dice.below(1500);
      intervals.push_back({space, begin, std::min(reached, kSize)});
    } while (reached < kSize - 600);
  }
  return intervals;
}

void run_random_program(uint64_t seed, int threads) {
  Dice dice(seed);
  const em_totals before = everything();
  {
    StartedLoop loop;
    Program program{{}, {}, loop.get()};
    std::vector<std::pair<em_arena*, const char*>> arenas;
    int64_t requests = 0;
    for (int iteration = 0; iteration < 12; ++iteration) {
      if (iteration == 0 || dice.one_in(3)) {
        const int64_t spaces = 1 + dice.below(3);
        const std::vector<em_slot> slots = random_slots(dice, spaces);
        const std::vector<em_interval> intervals = random_spaces(dice, spaces);
        if (!arenas.empty() && dice.one_in(2)) {
          loop.replay_in(loop.arena(), slots, kSize, intervals);
        } else {
          const char* base = loop.replay(slots, kSize, intervals);
          arenas.emplace_back(loop.arena(), base);
        }
      }
      CHECK(em_loop_record(loop.get(), kMany) == EM_OK);
      program.work(seed + 1000, dice.below(20));  // outside of iterations
      loop.begin();
      std::vector<std::thread> working;
      for (int t = 1; t < threads; ++t) {
        const auto own = seed * 31 + static_cast<uint64_t>(iteration * 8 + t);
        working.emplace_back([&program, own] { program.work(own, 120); });
      }
      program.work(seed * 31 + static_cast<uint64_t>(iteration), 120);
      for (std::thread& thread : working) {
        thread.join();
      }
      loop.end();
      const em_loop_stats last = loop.last();
      requests += last.requests;
      CHECK(last.requests == last.hits + last.dynamic_hits + last.misses + last.occupied + last.dynamic_misses +
                                 last.unplanned + last.other_stream + last.failed);
      CHECK(last.failed == 0 && last.other_stream == 0 && last.arena_peak <= kSize * 8);
      for (const auto& [arena, base] : arenas) {
        CHECK(em_arena_left(arena) == program.ledger.count_in(base, kSize));
      }
      int64_t made = 0;
      for (const em_loop_event& event : loop.take_events()) {
        CHECK(event.size > 0 ? event.request == made : event.request < made);
        made += event.size > 0;
      }
      CHECK(made >= last.requests);
    }
    CHECK(loop.total().requests == requests && loop.total().iterations == 12);
    if (dice.one_in(2)) {
      em_loop_stop(loop.get());
    }
    Block block;
    while (program.pile.get(dice, block)) {
      check_contents(block);
      give(block.start);
    }
  }
  const em_totals after = everything();
  CHECK(after.arenas == before.arenas && after.heap_live == before.heap_live);
}

}  // namespace

TEST(random_programs_on_one_thread_keep_their_blocks) {
  int64_t seed = 1;
  for (int k = rounds(60); k > 0; --k) {
    run_random_program(static_cast<uint64_t>(seed++), 1);
  }
}

TEST(random_programs_on_several_threads_keep_their_blocks) {
  int64_t seed = 10'000;
  for (int k = rounds(20); k > 0; --k) {
    run_random_program(static_cast<uint64_t>(seed++), 4);
  }
}
