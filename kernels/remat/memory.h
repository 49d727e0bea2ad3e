// Memory under a budget: a pool, the values that lie in it, and the rules by which room is made.
//
//   address 0       small_bytes                                                bytes
//   | small values  | what is expensive ->                    <- what is cheap |
//
// It decides and counts; it runs no operator and touches no memory. A driver does: the simulator
// (tests/remat_simulator.h) only in figures, a runtime with tensors. Both serve a request so:
//
//   while (!(address = memory.take(bytes, kind))) {
//     victims = memory.victims(bytes);
//     if (victims.empty()) no room: not even with everything evicted that may be
//     for (victim : victims) { release its tensor; memory.evict(victim); }
//   }
//
// then `bind` says which value lies there. What is taken and not bound is never a victim: workspace of an operator, or
// a result before its call is known.
//
// To run a call, for the first time or again: lock what it reads, make the evicted ones among it resident, place what
// it writes and has not in memory, `ran`, unlock. A value that the program lets go leaves memory at once, or with its
// last lock (eager eviction, as in DTR): it stays recomputable, and counts as evicted for its neighbours, but not in
// `evictions`. A value that is made again after that stays until it is evicted or forgotten, as any other does: several
// calls may read it. A driver with tensors asks `take_released` then, which values it has to release.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "remat/pool.h"
#include "remat/rules.h"
#include "remat/values.h"
#include "remat/window.h"

namespace edgemem::remat {

struct MemoryCounts {
  std::int64_t requests = 0;     // blocks taken
  std::int64_t shortages = 0;    // requests that did not fit when they came
  std::int64_t searches = 0;     // passes over all blocks for victims
  std::int64_t evaluations = 0;  // heuristics computed in them
  std::int64_t search_ns = 0;    // time in them
  std::int64_t evictions = 0;    // values evicted to make room; what is freed eagerly or taken over is not counted
  std::int64_t evicted_bytes = 0;
  std::int64_t peak = 0;  // most bytes taken at once
  // Memory fragmentation (Coop, section 4.2): at each shortage, before anything is evicted for it, the free bytes
  // (without those of the small pool) that cannot serve it, of all bytes.
  double fragmentation_sum = 0;

  double fragmentation() const { return shortages == 0 ? 0 : fragmentation_sum / static_cast<double>(shortages); }
};

class Memory {
 public:
  // `bytes` >= 0, the budget; addresses and sizes of blocks are multiples of `alignment` > 0: what is asked for is
  // rounded up, the pool is rounded down. Throws std::invalid_argument.
  Memory(std::int64_t bytes, std::int64_t alignment, Rules rules);

  const Rules& rules() const { return rules_; }
  const MemoryCounts& counts() const { return counts_; }
  std::int64_t bytes() const { return small_.bytes() + pool_.bytes(); }
  std::int64_t used() const { return small_.used() + pool_.used(); }
  const Values& values() const { return values_; }

  // As in Values, which says what they mean; blocks of values that leave memory by them are free at once.
  ValueId add_constant(std::int64_t bytes) { return values_.add_constant(bytes); }
  CallId add_call(std::int64_t cost, std::span<const ValueId> reads, std::span<const std::int64_t> bytes) {
    return values_.add_call(cost, reads, bytes);
  }
  // Of what a call reads: it counts as accessed.
  void lock(ValueId id) {
    values_.lock(id);
    values_.touch(id);
  }
  void unlock(ValueId id);
  void hold(ValueId id) { values_.hold(id); }
  void let_go(ValueId id);
  void pin(ValueId id);
  void ran(CallId id);
  void advance(std::int64_t cost) { values_.advance(cost); }
  std::vector<ValueId> dependents(ValueId id) const { return values_.dependents(id); }

  // The values that left memory by unlock, let_go, pin or ran since the last call of this function, forgotten ones too.
  std::span<const ValueId> take_released();
  // The values that were forgotten since the last call of this function. Their numbers are used again after the next
  // call of it, so that the driver can first drop what it knows about them.
  std::span<const ValueId> take_forgotten();

  static constexpr std::int64_t kNoBlock = -2;
  // The value in the block that begins at this address; kNobody if the block is bound to none, kNoBlock if none in use
  // begins there.
  std::int64_t owner_at(std::int64_t address) const;
  // The bytes of the block in use that begins at this address; 0 if none does.
  std::int64_t bytes_at(std::int64_t address) const;

  struct UsedBlock {
    std::int64_t address;
    std::int64_t bytes;
    std::int64_t owner;  // a value, or kNobody
  };
  // All blocks in use, in the order of their addresses.
  std::vector<UsedBlock> used_blocks() const;

  // Where a request of `bytes` > 0 goes under the rules, or nothing if no free block is large enough.
  std::optional<std::int64_t> take(std::int64_t bytes, Kind kind);
  // The block at this address, bound to no value, is free.
  void give(std::int64_t address);
  // The value lies in the block at this address, which was taken for it. A value of no bytes lies nowhere: it is bound
  // to address 0, where nothing was taken.
  void bind(ValueId id, std::int64_t address);

  // The budget is larger by so many bytes (rounded down), at the end of the pool.
  void grow(std::int64_t bytes) { pool_.grow(bytes - bytes % alignment_); }

  // The values to evict next for a request of `bytes` > 0 that does not fit, in the order of their addresses. Empty: no
  // evictions make enough room. With the window all at once; one by one: the one of the least heuristic (the one with
  // the lowest address among equals), and after its eviction the caller asks again if the request still does not fit.
  // Valid until the next call of it.
  std::span<const ValueId> victims(std::int64_t bytes);
  // Evicts a value that victims() named: its block is free.
  void evict(ValueId id);
  // Before the call runs that makes the new version: it gets the block of the old one, as `in_place` says. The old
  // version counts as evicted; if it cannot be made again, all that the call writes is pinned when it has run (before
  // that the driver has pinned the `dependents` of the old version). False, and nothing happens, if it cannot: the
  // rules say copy on write, and the old version can be made again; it has not exactly one lock (the call's own), is
  // not resident, or is of another size.
  bool take_over(ValueId old_version, ValueId new_version);
  bool can_take_over(ValueId old_version, ValueId new_version) const;

  // Moves blocks towards the beginning of the pool, so that the free bytes behind them are in one piece: each block
  // with a value, in the order of their addresses, for which `move(value, from, to, bytes)` is true, where it has moved
  // what lies there. The two places may overlap.
  using Move = std::function<bool(ValueId, std::int64_t, std::int64_t, std::int64_t)>;
  void compact(const Move& move);

 private:
  double heuristic(const Pool::Block& block);
  void find_window(std::int64_t wanted);
  void find_cheapest();
  std::optional<std::int64_t> take_small(std::int64_t wanted);
  std::optional<std::int64_t> take_large(std::int64_t wanted, Kind kind);
  void leave_memory(ValueId id);
  void after_release(ValueId id);
  std::int64_t padded(std::int64_t bytes) const;
  // The pool that an address lies in, and the used block of it that begins there; kNone if there is none.
  bool is_small(std::int64_t address) const { return address < small_.bytes(); }
  Pool& pool_at(std::int64_t address) { return is_small(address) ? small_ : pool_; }
  const Pool& pool_at(std::int64_t address) const { return is_small(address) ? small_ : pool_; }
  Pool::Index block_at(std::int64_t address) const;

  Rules rules_;
  std::int64_t alignment_;
  std::int64_t most_small_;  // bytes of a request that is served from the small pool
  Pool small_, pool_;        // the second lies behind the first
  Values values_;
  MemoryCounts counts_;
  bool is_short_ = false;  // the last request did not fit
  std::size_t freed_ = 0;  // of values_.forgotten(), those whose blocks are free
  std::vector<WindowBlock> layout_;
  std::vector<ValueId> owners_, victims_, released_, handed_out_;
};

}  // namespace edgemem::remat
