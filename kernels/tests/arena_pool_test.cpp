// The pool of host blocks against a map of its bytes, which predicts every address.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arena/block_header.h"
#include "arena/pool.h"
#include "tests/arena_plans.h"
#include "tests/arena_process.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

using edgemem::BlockHeader;
using edgemem::Pool;

namespace {

constexpr int64_t kUnit = 64;      // bytes; of this is everything in the pool a multiple
constexpr int64_t kLeastRest = 4;  // units; a smaller rest of a free piece stays with the block

// Which units of the first region are taken. A request gets the lowest of the smallest free runs of units that are long
// enough, one unit longer than its bytes, for the header. If there is none, the region grows.
class UnitMap {
 public:
  struct Run {
    std::size_t begin;
    std::size_t units;
  };

  std::size_t units() const { return taken_.size(); }
  std::vector<Run> free_runs() const {
    std::vector<Run> runs;
    for (std::size_t k = 0; k < taken_.size(); ++k) {
      if (taken_[k]) {
        continue;
      }
      if (k == 0 || taken_[k - 1]) {
        runs.push_back({k, 0});
      }
      ++runs.back().units;
    }
    return runs;
  }

  Run take(int64_t bytes) {
    const auto wanted = static_cast<std::size_t>((bytes + kUnit - 1) / kUnit + 1);
    const std::vector<Run> runs = free_runs();
    const Run* best = nullptr;
    for (const Run& run : runs) {
      if (run.units >= wanted && (best == nullptr || run.units < best->units)) {
        best = &run;
      }
    }
    Run taken{taken_.size(), wanted};
    if (best != nullptr) {
      const bool is_cut = best->units - wanted >= static_cast<std::size_t>(kLeastRest);
      taken = {best->begin, is_cut ? wanted : best->units};
    } else if (!runs.empty() && runs.back().begin + runs.back().units == taken_.size()) {
      taken.begin = runs.back().begin;
    }
    taken_.resize(std::max(taken_.size(), taken.begin + taken.units), false);
    std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(taken.begin), taken.units, true);
    return taken;
  }

  void give(const Run& run) { std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(run.begin), run.units, false); }

 private:
  std::vector<bool> taken_;
};

struct Held {
  BlockHeader* block;
  int64_t bytes;
  UnitMap::Run run;
  int pattern;
};

// A pool beside its map. All blocks that are alive are full of a pattern of their own.
class Checked {
 public:
  void take(int64_t bytes) {
    BlockHeader* block = pool_.take(bytes);
    CHECK(block != nullptr);
    if (base_ == nullptr) {
      base_ = reinterpret_cast<std::byte*>(block);
      CHECK(reinterpret_cast<std::uintptr_t>(base_) % kUnit == 0);
    }
    const UnitMap::Run run = map_.take(bytes);
    CHECK(reinterpret_cast<std::byte*>(block) == base_ + static_cast<int64_t>(run.begin) * kUnit);
    CHECK(pool_.contains(block) && pool_.contains(static_cast<std::byte*>(block->payload()) + bytes - 1));
    held_.push_back({block, bytes, run, ++pattern_ % 251});
    std::memset(block->payload(), held_.back().pattern, static_cast<std::size_t>(bytes));
  }

  void give(std::size_t k) {
    CHECK(has_pattern(held_[k]));
    map_.give(held_[k].run);
    pool_.give(held_[k].block);
    held_[k] = held_.back();
    held_.pop_back();
  }

  // After this only pages with a block, with the header of a free piece, or at the end use memory.
  int64_t trim() {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t bytes = static_cast<int64_t>(map_.units()) * kUnit;
    const int64_t before = resident(base_, bytes);
    const int64_t given = pool_.trim();
    const int64_t after = resident(base_, bytes);
    CHECK(before - after <= given && given <= bytes);
    std::vector<bool> needed(static_cast<std::size_t>(bytes / page + 1), false);
    const auto need = [&](std::size_t begin, std::size_t units) {
      const int64_t last = (static_cast<int64_t>(begin + units) * kUnit - 1) / page;
      for (int64_t k = static_cast<int64_t>(begin) * kUnit / page; k <= last; ++k) {
        needed[static_cast<std::size_t>(k)] = true;
      }
    };
    for (const Held& held : held_) {
      need(held.run.begin, held.run.units);
    }
    for (const UnitMap::Run& run : map_.free_runs()) {
      need(run.begin, 1);
    }
    need(map_.units() - 1, 1);  // the pool's end need not be that of a page
    CHECK(after <= std::count(needed.begin(), needed.end(), true) * page);
    CHECK(pool_.trim() == 0);
    CHECK(std::all_of(held_.begin(), held_.end(), has_pattern));
    return given;
  }

  std::size_t alive() const { return held_.size(); }
  int64_t bytes() const { return static_cast<int64_t>(map_.units()) * kUnit; }
  Pool& pool() { return pool_; }
  const std::byte* base() const { return base_; }

 private:
  static bool has_pattern(const Held& held) {
    const auto* begin = static_cast<const unsigned char*>(held.block->payload());
    return std::all_of(begin, begin + held.bytes, [&held](unsigned char byte) { return byte == held.pattern; });
  }

  Pool pool_;
  UnitMap map_;
  std::byte* base_ = nullptr;
  std::vector<Held> held_;
  int pattern_ = 0;
};

int64_t random_size(Dice& dice) {
  switch (dice.below(8)) {
    case 0:
      return 1 + dice.below(40000);
    case 1:
      return 4096 * (1 + dice.below(4)) - 64 * dice.below(3);
    default:
      return 1 + dice.below(1000);
  }
}

}  // namespace

TEST(every_block_of_the_pool_lies_where_the_map_says) {
  Dice dice(30);
  Checked checked;  // one for all rounds: it is reused as a process reuses it
  for (int round = 0; round < rounds(40); ++round) {
    const int64_t most = 1 + dice.below(120);
    for (int k = 0; k < 300; ++k) {
      const auto alive = static_cast<int64_t>(checked.alive());
      if (alive < most && (alive == 0 || dice.below(2 * most) >= alive)) {
        checked.take(random_size(dice));
      } else {
        checked.give(static_cast<std::size_t>(dice.below(alive)));
      }
      if (checked.alive() > 0 && dice.one_in(60)) {
        checked.trim();
      }
    }
    if (dice.one_in(4)) {
      while (checked.alive() > 0) {
        checked.give(static_cast<std::size_t>(dice.below(static_cast<int64_t>(checked.alive()))));
      }
    }
  }
}

TEST(free_neighbours_become_one_piece_in_any_order) {
  Dice dice(31);
  Checked checked;
  for (int round = 0; round < 50; ++round) {
    for (int k = 0; k < 60; ++k) {
      checked.take(random_size(dice));
    }
    while (checked.alive() > 0) {
      checked.give(static_cast<std::size_t>(dice.below(static_cast<int64_t>(checked.alive()))));
    }
    const int64_t bytes = checked.bytes();
    checked.take(bytes - 64);  // all there is, but a header
    CHECK(checked.bytes() == bytes);
    checked.give(0);
  }
}

TEST(the_pool_gives_the_pages_of_freed_blocks_back) {
  constexpr int64_t kBlock = 1 << 20;
  Checked checked;
  for (int k = 0; k < 32; ++k) {
    checked.take(kBlock);
  }
  CHECK(resident(checked.base(), checked.bytes()) >= 32 * kBlock);
  CHECK(checked.trim() == 0);
  for (std::size_t k = 0; k < 16; ++k) {
    checked.give(k);  // the last one takes its place in the list: every other half of the blocks stays
  }
  CHECK(checked.trim() >= 16 * (kBlock - 2 * sysconf(_SC_PAGESIZE)));
  checked.take(100);  // of a piece whose pages have gone
  checked.take(kBlock);
  while (checked.alive() > 0) {
    checked.give(0);
  }
  checked.trim();
  CHECK(resident(checked.base(), checked.bytes()) <= 2 * sysconf(_SC_PAGESIZE));
}

TEST(what_a_trim_finds_in_use_leaves_no_pages_when_it_is_freed) {
  constexpr int64_t kBlock = 4 << 20;
  Checked checked;
  for (int k = 0; k < 3; ++k) {
    checked.take(kBlock);
  }
  checked.give(0);
  checked.give(1);  // the second one is left, as the last one took its place in the list
  checked.trim();
  checked.give(0);  // behind more free memory than any request since the trim needed
  CHECK(resident(checked.base(), checked.bytes()) <= 2 * sysconf(_SC_PAGESIZE));
  for (int k = 0; k < 50; ++k) {  // what is used again and again stays
    checked.take(kBlock);
    checked.give(0);
    CHECK(resident(checked.base(), checked.bytes()) >= kBlock);
  }
  CHECK(resident(checked.base(), checked.bytes()) <= kBlock + 4 * sysconf(_SC_PAGESIZE));
}

TEST(trim_counts_only_pages_that_were_used_since_the_last_time) {
  constexpr int64_t kBlock = 8 << 20;
  Pool pool;
  BlockHeader* large = pool.take(kBlock);
  std::memset(large->payload(), 1, kBlock);
  pool.give(large);
  CHECK(pool.trim() >= kBlock - sysconf(_SC_PAGESIZE));
  BlockHeader* small = pool.take(100);
  std::memset(small->payload(), 1, 100);
  pool.give(small);
  CHECK(pool.trim() <= 4 * sysconf(_SC_PAGESIZE));
}

TEST(an_address_outside_the_pool_is_not_of_it) {
  Pool pool;
  const int here = 0;
  CHECK(!pool.contains(nullptr) && !pool.contains(&here));
  BlockHeader* block = pool.take(5);
  CHECK(pool.contains(block) && pool.contains(block->payload()) && !pool.contains(&here));
  CHECK(!pool.contains(reinterpret_cast<std::byte*>(block) - 1));  // the region begins with it
  pool.give(block);
  CHECK(pool.contains(block));
}
