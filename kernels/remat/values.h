// The values of a running program and the calls that make them.
//
//   constant ──► call ──► value ──► call ──► value        value: one version of a storage; call: one run of an operator
//                           └─────► call ──► value
//
// A value is *held* from its making until the program lets it go, and *needed* while it is held, locked, or read by a
// call that may have to run again. A call may have to run again while one of the values that it wrote is needed and not
// pinned. A value that is no longer needed is forgotten with all that only it needed, and its number is used again.
//
// A value is *recomputable* while the call that made it is known. The others are never evicted: constants, and values
// that were pinned because they cannot be made again, or must not be. They leave memory when they are forgotten.
//
// The evicted values that are neighbours of each other (one is read by the call that makes the other) form sets, with
// the sum of their costs, as e~* in DTR (section 4.1). When values become neighbours by an eviction, their sets become
// one; a value that is made again leaves its set, which is not split: the approximation that DTR makes. A value that is
// forgotten leaves its set too. The *projected cost* of a value is the cost of its call, and of all sets that hold an
// evicted neighbour of it, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace edgemem::remat {

using ValueId = std::int64_t;
using CallId = std::int64_t;
constexpr std::int64_t kNobody = -1;

class Values {
 public:
  static constexpr std::int64_t kNotResident = -1;

  struct Value {
    std::int64_t bytes = 0;
    CallId call = kNobody;  // that makes it; kNobody: a constant, or pinned
    std::int64_t address = kNotResident;
    std::int64_t last_access = 0;
    std::int64_t locks = 0;
    bool is_known = false;  // false: this number is free
    bool is_held = false;
    bool is_resident = false;       // also of a value of no bytes, once it is made
    bool is_made_again = false;     // resident since a time after the program let it go
    std::int64_t serial = 0;        // values are counted in the order in which they were added
    std::vector<CallId> read_by{};  // calls that may have to run again
    std::int64_t set = kNobody;     // of a value that is evicted
    ValueId before_in_set = kNobody, after_in_set = kNobody;
  };

  struct Call {
    std::int64_t cost = 0;
    bool is_known = false;
    bool has_run = false;
    bool runs_once = false;   // what it reads is lost: what it writes is pinned when it has run
    std::int64_t wanted = 0;  // values that it writes and that are neither pinned nor forgotten
    std::vector<ValueId> reads{};
    std::vector<std::size_t> places{};  // of this call in the `read_by` of each of them
    std::vector<ValueId> writes{};      // kNobody in the place of those that are pinned or forgotten
  };

  // A constant, held and not yet resident. Bytes >= 0.
  ValueId add_constant(std::int64_t bytes);
  // A call that reads values and will write values of these bytes, which are held and not yet resident. A value that
  // is named twice in `reads` counts once. At least one is written. Cost >= 0, in any unit of time.
  CallId add_call(std::int64_t cost, std::span<const ValueId> reads, std::span<const std::int64_t> bytes);

  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  const Call& call(CallId id) const { return calls_[static_cast<std::size_t>(id)]; }
  bool is_known(ValueId id) const;
  bool is_recomputable(ValueId id) const { return value(id).call != kNobody; }
  // Resident and recomputable, and not locked.
  bool is_evictable(ValueId id) const;
  // Resident and recomputable, neither held nor locked, and not made again since the program let it go: eager eviction
  // frees it at once.
  bool is_idle(ValueId id) const;
  std::size_t value_count() const { return values_.size() - spare_values_.size(); }

  std::int64_t projected_cost(ValueId id);
  // Time, the sum of the costs of all calls that ran.
  std::int64_t clock() const { return clock_; }
  // Time since the value was last accessed, at least 1.
  std::int64_t staleness(ValueId id) const;

  void set_resident(ValueId id, std::int64_t address);
  // Not resident any more; enters a set if it is recomputable.
  void set_evicted(ValueId id);
  // The call has run: the clock advances by its cost. What it writes counts as accessed then, for the first time only:
  // what it makes again and nobody asked for is as stale as it was.
  void ran(CallId id);
  // The same for a call without results, which is not kept.
  void advance(std::int64_t cost) { clock_ += cost; }
  // A call that reads the value has been asked for: it counts as accessed before the call, and whatever has to be made
  // for it, takes time.
  void touch(ValueId id) { at(id).last_access = clock_; }

  void lock(ValueId id) { ++at(id).locks; }
  void unlock(ValueId id);  // at least one lock
  void let_go(ValueId id);  // held
  void hold(ValueId id) { at(id).is_held = true; }
  // Never evicted from now on: its call does not make it again. It must be resident.
  void pin(ValueId id);
  // Of a call that is about to take the memory of a value that cannot be made again.
  void set_runs_once(CallId id) { call_at(id).runs_once = true; }

  // The held values that are made, in one step or in several, from this one by calls that may have to run again: what
  // must be resident and pinned before the memory of `id` gets another content. Each once, in the order in which they
  // were added.
  std::vector<ValueId> dependents(ValueId id) const;

  // The values that were forgotten since the last call of take_forgotten, with what was known about them: the caller
  // frees their memory.
  std::span<const ValueId> forgotten() const { return forgotten_; }
  // The same. Their numbers are used again after the next call of it, so that the caller can first drop what it knows
  // about them.
  std::span<const ValueId> take_forgotten();

 private:
  struct Set {
    std::int64_t cost = 0;
    std::int64_t members = 0;
    ValueId first = kNobody;
    std::int64_t seen = 0;  // stamp of the projected cost that counted it last
  };

  Value& at(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  Call& call_at(CallId id) { return calls_[static_cast<std::size_t>(id)]; }

  template <typename Visit>
  void for_each_evicted_neighbour(ValueId id, const Visit& visit) const;
  void leave_set(ValueId id);
  std::int64_t united(std::int64_t one, std::int64_t other);
  void unwrite(ValueId id);
  void remove_reader(ValueId id, std::size_t place);
  void forget_unneeded(ValueId id);

  std::vector<Value> values_;
  std::vector<Call> calls_;
  std::vector<Set> sets_;
  std::vector<std::int64_t> spare_values_, spare_calls_, spare_sets_;
  std::vector<ValueId> pending_;  // of forget_unneeded
  std::vector<ValueId> forgotten_, handed_out_;
  bool is_forgetting_ = false;
  std::int64_t clock_ = 0;
  std::int64_t stamp_ = 0;
  std::int64_t serial_ = 0;
};

}  // namespace edgemem::remat
