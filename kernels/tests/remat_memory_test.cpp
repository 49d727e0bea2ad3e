#include <cstdint>
#include <stdexcept>
#include <vector>

#include "remat/memory.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::remat::CallId;
using edgemem::remat::Fit;
using edgemem::remat::Heuristic;
using edgemem::remat::Kind;
using edgemem::remat::Memory;
using edgemem::remat::Rules;
using edgemem::remat::Search;
using edgemem::remat::ValueId;

constexpr Rules kDtr{Heuristic::kDtr, Search::kOneByOne, Fit::kLeftmost, false, false, false, false};
constexpr Rules kCoop{.small_apart = false};

ValueId written(const Memory& memory, CallId call) { return memory.values().call(call).writes[0]; }

// The result of a new call that reads nothing, in memory.
ValueId made(Memory& memory, std::int64_t cost, std::int64_t bytes, Kind kind = Kind::kExpensive) {
  const CallId call = memory.add_call(cost, {}, std::vector{bytes});
  const ValueId id = written(memory, call);
  const auto address = memory.take(bytes, kind);
  CHECK(address.has_value());
  memory.bind(id, *address);
  memory.ran(call);
  return id;
}

std::int64_t address_of(const Memory& memory, ValueId id) { return memory.values().value(id).address; }

std::vector<ValueId> victims(Memory& memory, std::int64_t bytes) {
  const auto found = memory.victims(bytes);
  return {found.begin(), found.end()};
}

}  // namespace

TEST(remat_memory_rounds_requests_up_and_the_pool_down) {
  Memory memory(1000, 64, kDtr);
  CHECK(memory.bytes() == 960);
  CHECK(*memory.take(1, Kind::kCheap) == 0 && *memory.take(65, Kind::kCheap) == 64);
  CHECK(*memory.take(1, Kind::kCheap) == 192);
  CHECK(memory.counts().peak == 256 && memory.counts().requests == 3);
  CHECK(!memory.take(960, Kind::kCheap).has_value());
  CHECK_REFUSED(memory.take(0, Kind::kCheap));
  CHECK_REFUSED(memory.take(INT64_MAX, Kind::kCheap));
  CHECK_REFUSED(Memory(100, 0, kDtr));
  CHECK_REFUSED(Memory(-1, 1, kDtr));
  CHECK_REFUSED(Memory(-1, 64, kDtr));
}

TEST(remat_memory_places_cheap_and_expensive_at_two_ends) {
  Memory memory(100, 1, kCoop);
  CHECK(*memory.take(10, Kind::kExpensive) == 0);
  CHECK(*memory.take(10, Kind::kCheap) == 90);
  CHECK(*memory.take(10, Kind::kExpensive) == 10);
  CHECK(*memory.take(10, Kind::kCheap) == 80);
}

TEST(remat_memory_places_constants_at_the_nearer_end) {
  Memory memory(100, 1, kCoop);
  CHECK(*memory.take(10, Kind::kConstant) == 0);
  CHECK(*memory.take(20, Kind::kConstant) == 80);
  CHECK(*memory.take(15, Kind::kConstant) == 10);  // 10 from the left end, 20 from the right
  CHECK(*memory.take(10, Kind::kConstant) == 70);  // 25 from the left end, 20 from the right
  Rules rules = kCoop;
  rules.constants_at_ends = false;
  Memory plain(100, 1, rules);
  CHECK(*plain.take(10, Kind::kConstant) == 0 && *plain.take(10, Kind::kConstant) == 10);
}

TEST(remat_memory_takes_the_best_fit_where_the_rules_say_so) {
  for (const Fit fit : {Fit::kLeftmost, Fit::kBest}) {
    Rules rules = kDtr;
    rules.fit = fit;
    Memory memory(100, 1, rules);
    const std::int64_t wide = *memory.take(30, Kind::kCheap);
    memory.take(10, Kind::kCheap);
    const std::int64_t narrow = *memory.take(20, Kind::kCheap);
    memory.take(40, Kind::kCheap);
    memory.give(wide);
    memory.give(narrow);
    CHECK(*memory.take(20, Kind::kCheap) == (fit == Fit::kBest ? narrow : wide));
  }
}

TEST(remat_memory_evicts_one_by_one_by_each_heuristic) {
  // At the clock of 30: a is 20 bytes, cost 10, stale 20; b is 20 bytes, cost 18, stale 2; c is 40 bytes, cost 2,
  // fresh.
  const auto first_victim = [](Heuristic heuristic) {
    Rules rules = kDtr;
    rules.heuristic = heuristic;
    Memory memory(100, 1, rules);
    const ValueId a = made(memory, 10, 20), b = made(memory, 18, 20), c = made(memory, 2, 40);
    CHECK(!memory.take(30, Kind::kCheap).has_value());
    const ValueId victim = victims(memory, 30).at(0);
    return victim == a ? 'a' : victim == b ? 'b' : victim == c ? 'c' : '?';
  };
  CHECK(first_victim(Heuristic::kDtr) == 'a');   // 10/(20 20) < 2/(40 1) < 18/(20 2)
  CHECK(first_victim(Heuristic::kDte) == 'a');   // 10/(20 20) < 2/(60 1): the free 20 bytes are beside c
  CHECK(first_victim(Heuristic::kCoop) == 'a');  // 10/20 < 2/1 < 18/2
}

TEST(remat_memory_counts_free_neighbours_in_dte) {
  Rules rules = kDtr;
  for (const Heuristic heuristic : {Heuristic::kDtr, Heuristic::kDte}) {
    rules.heuristic = heuristic;
    Memory memory(100, 1, rules);
    const std::int64_t wall = *memory.take(10, Kind::kCheap);
    const ValueId alone = made(memory, 10, 30);
    memory.take(10, Kind::kCheap);
    const ValueId beside = made(memory, 10, 20);
    for (const ValueId id : {alone, beside}) {  // both are fresh
      memory.lock(id);
      memory.unlock(id);
    }
    (void)wall;
    CHECK(victims(memory, 50) == std::vector{heuristic == Heuristic::kDtr ? alone : beside});
  }
}

TEST(remat_memory_evicts_a_window_at_once) {
  Memory memory(100, 1, Rules{.partition = false, .constants_at_ends = false});
  const ValueId a = made(memory, 1, 30), b = made(memory, 1, 30), c = made(memory, 1, 30);
  memory.lock(a);
  CHECK(!memory.take(60, Kind::kCheap).has_value());
  CHECK(victims(memory, 60) == (std::vector{b, c}));
  for (const ValueId id : {b, c}) memory.evict(id);
  CHECK(*memory.take(60, Kind::kCheap) == 30);
  CHECK(memory.counts().searches == 1 && memory.counts().evaluations == 2 && memory.counts().evictions == 2);
  CHECK(memory.counts().shortages == 1 && memory.counts().fragmentation() == 0.1);
  CHECK(victims(memory, 60).empty());
}

TEST(remat_memory_never_evicts_what_is_locked_pinned_constant_or_unbound) {
  Memory memory(50, 1, Rules{.partition = false, .constants_at_ends = false});
  const ValueId fixed = memory.add_constant(10);
  memory.bind(fixed, *memory.take(10, Kind::kConstant));
  const ValueId locked = made(memory, 1, 10), pinned = made(memory, 1, 10);
  const std::int64_t workspace = *memory.take(10, Kind::kCheap);
  memory.lock(locked);
  memory.pin(pinned);
  CHECK(victims(memory, 20).empty());
  CHECK_REFUSED(memory.evict(locked));
  CHECK_REFUSED(memory.evict(pinned));
  CHECK_REFUSED(memory.evict(fixed));
  CHECK_REFUSED(memory.give(address_of(memory, pinned)));
  memory.give(workspace);
  CHECK(*memory.take(20, Kind::kCheap) == 30);
}

TEST(remat_memory_frees_at_once_what_the_program_lets_go) {
  Memory memory(100, 1, kDtr);
  const ValueId first = made(memory, 1, 40);
  const CallId call = memory.add_call(1, std::vector{first}, std::vector<std::int64_t>{40});
  const ValueId second = written(memory, call);
  memory.bind(second, *memory.take(40, Kind::kCheap));
  memory.let_go(first);  // recomputable, since the second needs it
  CHECK(memory.used() == 40 && memory.values().is_known(first) && !memory.values().value(first).is_resident);
  CHECK(memory.take_released().size() == 1 && memory.take_forgotten().empty());
  memory.let_go(second);
  CHECK(memory.used() == 0 && memory.take_forgotten().size() == 2 && memory.take_released().size() == 1);
  CHECK(memory.counts().evictions == 0);
}

TEST(remat_memory_frees_an_idle_value_with_its_last_lock) {
  Memory memory(100, 1, kDtr);
  const ValueId first = made(memory, 1, 40);
  const CallId call = memory.add_call(1, std::vector{first}, std::vector<std::int64_t>{40});
  memory.lock(first);
  memory.lock(first);
  memory.let_go(first);
  memory.unlock(first);
  CHECK(memory.used() == 40);
  memory.unlock(first);
  CHECK(memory.used() == 0 && memory.values().is_known(first));
  memory.let_go(written(memory, call));
  CHECK(!memory.values().is_known(first));
}

TEST(remat_memory_keeps_what_is_made_again) {
  Memory memory(100, 1, kDtr);
  const ValueId first = made(memory, 1, 40);
  const CallId call = memory.add_call(1, std::vector{first}, std::vector<std::int64_t>{40});
  memory.let_go(first);
  CHECK(memory.used() == 0 && memory.values().is_known(first));
  memory.lock(first);
  memory.bind(first, *memory.take(40, Kind::kCheap));
  memory.unlock(first);
  CHECK(memory.used() == 40 && memory.values().is_evictable(first));
  // A storage that the driver lent it is none of the program's.
  memory.hold(first);
  memory.let_go(first);
  CHECK(memory.used() == 40 && victims(memory, 80) == std::vector{first});
  memory.let_go(written(memory, call));
  CHECK(memory.used() == 0);  // nobody reads it any more
}

TEST(remat_memory_gives_a_new_version_the_block_of_the_old_one) {
  Memory memory(100, 1, kCoop);
  const ValueId before = made(memory, 1, 40);
  const CallId call = memory.add_call(1, std::vector{before}, std::vector<std::int64_t>{40});
  const ValueId after = written(memory, call);
  CHECK(!memory.take_over(before, after));  // the call has not locked what it reads
  memory.lock(before);
  CHECK(memory.take_over(before, after));
  memory.ran(call);
  CHECK(address_of(memory, after) == 0 && memory.used() == 40);
  CHECK(memory.owner_at(0) == after);
  CHECK(!memory.values().value(before).is_resident && memory.values().is_evictable(after));
  CHECK(memory.values().value(before).set != edgemem::remat::kNobody);  // an evicted neighbour
}

TEST(remat_memory_does_not_join_sets_over_a_version_that_is_made_again) {
  Memory memory(200, 1, kCoop);
  const ValueId before = made(memory, 1, 40);
  const CallId update = memory.add_call(2, std::vector{before}, std::vector<std::int64_t>{40});
  const ValueId after = written(memory, update);
  memory.lock(before);
  CHECK(memory.take_over(before, after));
  memory.ran(update);
  memory.unlock(before);
  const CallId reader = memory.add_call(4, std::vector{after}, std::vector<std::int64_t>{40});
  const ValueId next = written(memory, reader);
  memory.bind(next, *memory.take(40, Kind::kCheap));
  memory.evict(next);
  memory.evict(after);
  CHECK(memory.values().value(before).set == memory.values().value(next).set);
  // The update runs again: its result parts what it reads from what reads it.
  memory.lock(before);
  memory.bind(before, *memory.take(40, Kind::kCheap));
  CHECK(memory.take_over(before, after));
  CHECK(memory.values().value(before).set != memory.values().value(next).set);
}

TEST(remat_memory_pins_what_is_written_over_a_constant) {
  Memory memory(100, 1, kCoop);
  const ValueId before = memory.add_constant(40);
  memory.bind(before, *memory.take(40, Kind::kConstant));
  const CallId call = memory.add_call(1, std::vector{before}, std::vector<std::int64_t>{40});
  const ValueId after = written(memory, call);
  memory.lock(before);
  CHECK(memory.take_over(before, after));
  memory.ran(call);
  CHECK(!memory.values().is_recomputable(after) && memory.used() == 40);
  memory.unlock(before);
  memory.let_go(before);
  CHECK(memory.used() == 40 && !memory.values().is_known(before));
  memory.let_go(after);
  CHECK(memory.used() == 0);
}

TEST(remat_memory_copies_on_write_where_the_rules_say_so) {
  Memory memory(100, 1, kDtr);
  const ValueId before = made(memory, 1, 40);
  const CallId call = memory.add_call(1, std::vector{before}, std::vector<std::int64_t>{40});
  memory.lock(before);
  CHECK(!memory.take_over(before, written(memory, call)));
}

TEST(remat_memory_keeps_small_values_apart) {
  constexpr std::int64_t kBudget = 1 << 20, kSmall = 1 << 12;  // requests of at most 16 bytes are small
  Memory memory(kBudget, 1, Rules{});
  CHECK(*memory.take(17, Kind::kExpensive) == kSmall);
  CHECK(*memory.take(16, Kind::kCheap) == 0 && *memory.take(1, Kind::kConstant) == 16);
  CHECK(memory.used() == 34 && memory.bytes() == kBudget && memory.counts().peak == 34);
  CHECK(memory.owner_at(16) == edgemem::remat::kNobody && memory.owner_at(17) == Memory::kNoBlock);
  // Nothing in the small pool is a victim, and its free bytes are no fragments.
  const ValueId small = made(memory, 1, 16), large = made(memory, 1, kBudget - kSmall - 17);
  CHECK(address_of(memory, small) == 17);
  CHECK(!memory.take(100, Kind::kCheap).has_value());
  CHECK(memory.counts().fragmentation() == 0);
  CHECK(victims(memory, 100) == std::vector{large});
  // Where it is full, small values go where the others go.
  while (memory.take(16, Kind::kExpensive).value_or(kSmall) < kSmall) {
  }
  memory.evict(large);
  CHECK(*memory.take(16, Kind::kExpensive) == kSmall + 17);
  memory.grow(50);
  CHECK(memory.bytes() == kBudget + 50 && *memory.take(20, Kind::kCheap) == kBudget + 30);
  Memory little(65535, 1, Rules{});
  CHECK(*little.take(1, Kind::kExpensive) == 0 && *little.take(1, Kind::kCheap) == 65534);
}

TEST(remat_memory_lists_the_blocks_in_use) {
  Memory memory(1 << 20, 1, Rules{});
  const std::int64_t large = *memory.take(100, Kind::kExpensive);
  memory.take(3, Kind::kExpensive);
  const ValueId last = made(memory, 1, 50, Kind::kCheap);
  const auto used = memory.used_blocks();
  CHECK(used.size() == 3 && used[0].address == 0 && used[0].bytes == 3 && used[1].address == large);
  CHECK(used[1].owner == edgemem::remat::kNobody && used[2].owner == last && used[2].bytes == 50);
  CHECK(memory.bytes_at(large) == 100 && memory.bytes_at(0) == 3 && memory.bytes_at(1) == 0);
  CHECK(memory.owner_at(address_of(memory, last)) == last);
}

TEST(remat_memory_partitions_under_best_fit) {
  Memory memory(100, 1, Rules{.fit = Fit::kBest, .small_apart = false});
  const std::int64_t wide = *memory.take(30, Kind::kExpensive);
  memory.take(10, Kind::kExpensive);
  const std::int64_t narrow = *memory.take(20, Kind::kExpensive);
  memory.take(40, Kind::kExpensive);
  memory.give(wide);
  memory.give(narrow);
  CHECK(*memory.take(5, Kind::kCheap) == narrow + 15 && *memory.take(5, Kind::kExpensive) == narrow);
}

TEST(remat_memory_moves_blocks_together) {
  Memory memory(100, 1, kDtr);
  const std::int64_t first = *memory.take(10, Kind::kExpensive);
  const ValueId moved = made(memory, 1, 20);
  const std::int64_t second = *memory.take(5, Kind::kExpensive);
  const std::int64_t workspace = *memory.take(15, Kind::kExpensive);  // nobody knows how to move it
  const std::int64_t third = *memory.take(10, Kind::kExpensive);
  const ValueId stays = made(memory, 1, 10);
  const std::int64_t fourth = *memory.take(10, Kind::kExpensive);
  const ValueId last = made(memory, 1, 10);
  for (const std::int64_t free : {first, second, third, fourth}) memory.give(free);
  CHECK(!memory.take(20, Kind::kExpensive).has_value());
  std::vector<std::int64_t> rows;
  memory.compact([&](ValueId value, std::int64_t from, std::int64_t to, std::int64_t bytes) {
    if (value == stays) return false;
    for (const std::int64_t number : {value, from, to, bytes}) rows.push_back(number);
    return true;
  });
  CHECK((rows == std::vector<std::int64_t>{moved, 10, 0, 20, last, 80, 70, 10}));
  CHECK(address_of(memory, moved) == 0 && address_of(memory, last) == 70 && memory.owner_at(70) == last);
  CHECK(memory.owner_at(workspace) == edgemem::remat::kNobody && address_of(memory, stays) == 60);
  CHECK(memory.used() == 55 && memory.bytes_at(0) == 20 && memory.bytes_at(80) == 0);
  CHECK(*memory.take(20, Kind::kExpensive) == 80 && *memory.take(15, Kind::kExpensive) == 20);
  CHECK(*memory.take(10, Kind::kExpensive) == 50 && memory.used() == 100);
}
