#include "tests/remat_simulator.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/remat_log_check.h"

namespace edgemem {

namespace {

using remat::CallId;
using remat::Kind;
using remat::kNobody;
using remat::Memory;
using remat::ValueId;

constexpr double kMostLimit = 1000;

// Whether the run goes on.
enum class Outcome { kFine, kOutOfMemory, kThrashing };

class Driver {
 public:
  Driver(const OperatorLog& log, std::int64_t budget, std::int64_t alignment, const remat::Rules& rules, double limit,
         bool with_history)
      : log_(log), memory_(budget, alignment, rules), with_history_(with_history) {
    double total = 0;
    for (const std::int64_t cost : log.cost) total += static_cast<double>(cost);
    most_recomputed_ = limit * total;
    id_of_.assign(log.size.size(), kNobody);
    kind_.assign(log.cost.size(), Kind::kCheap);
  }

  RematRun run() {
    Outcome outcome = Outcome::kFine;
    const std::size_t events = log_.event_kind.size();
    std::size_t event = 0;
    for (; event < events && outcome == Outcome::kFine; ++event) {
      const auto index = static_cast<std::size_t>(log_.event_index[event]);
      switch (static_cast<EventKind>(log_.event_kind[event])) {
        case EventKind::kCall:
          outcome = first_run(index);
          break;
        case EventKind::kConstant:
          outcome = constant(index);
          break;
        case EventKind::kLetGo:
          let_go(index);
          break;
        case EventKind::kPin:
          outcome = pin(id_of_[index]);
          break;
        case EventKind::kSpare:
          spare(id_of_[index]);
          break;
      }
    }
    if (outcome == Outcome::kFine) {
      outcome = finish();
    } else {
      --event;
    }
    run_.event = static_cast<std::int64_t>(event);
    if (outcome == Outcome::kOutOfMemory) run_.ended = RematEnd::kOutOfMemory;
    if (outcome == Outcome::kThrashing) run_.ended = RematEnd::kThrashing;
    run_.counts = memory_.counts();
    return std::move(run_);
  }

 private:
  // A call that is to run again, and what it has locked of what it reads.
  struct Frame {
    CallId id;
    std::vector<ValueId> locked{};

    bool has_locked(ValueId read) const { return std::find(locked.begin(), locked.end(), read) != locked.end(); }
  };

  Column row(Column offsets, Column values, std::size_t i) const {
    const auto begin = static_cast<std::size_t>(offsets[i]);
    return values.subspan(begin, static_cast<std::size_t>(offsets[i + 1]) - begin);
  }
  Column reads_of(std::size_t call) const { return row(log_.reads_offsets, log_.reads, call); }
  Column writes_of(std::size_t call) const { return row(log_.writes_offsets, log_.writes, call); }
  ValueId id_of(std::int64_t value) const { return id_of_[static_cast<std::size_t>(value)]; }
  std::int64_t& log_call(CallId id) { return grown(log_call_, id); }
  std::int64_t& log_value(ValueId id) { return grown(log_value_, id); }
  static std::int64_t& grown(std::vector<std::int64_t>& table, std::int64_t id) {
    if (static_cast<std::size_t>(id) >= table.size()) table.resize(static_cast<std::size_t>(id) + 1, kNobody);
    return table[static_cast<std::size_t>(id)];
  }

  void record(RematStep step, std::int64_t subject, std::int64_t address = -1) {
    if (with_history_) run_.history.insert(run_.history.end(), {static_cast<std::int64_t>(step), subject, address});
  }

  // After whatever may have made values leave memory, or be forgotten.
  void settle() {
    for (const ValueId id : memory_.take_released()) record(RematStep::kRelease, log_value(id));
    for (const ValueId id : memory_.take_forgotten()) id_of_[static_cast<std::size_t>(log_value(id))] = kNobody;
  }

  void lock(ValueId id) {
    end_sparing(id);
    memory_.lock(id);
  }

  void unlock(ValueId id) {
    memory_.unlock(id);
    settle();
  }

  void let_go(std::size_t value) {
    if (id_of_[value] == kNobody) return;
    end_sparing(id_of_[value]);
    memory_.let_go(id_of_[value]);
    settle();
  }

  Outcome pin(ValueId id) {
    if (const Outcome outcome = make_resident({id}); outcome != Outcome::kFine) return outcome;
    memory_.pin(id);
    unlock(id);
    return Outcome::kFine;
  }

  // A spared value has a lock of its own.
  void spare(ValueId id) {
    if (memory_.values().value(id).is_resident && memory_.values().is_recomputable(id) && spared_.insert(id).second) {
      memory_.lock(id);
    }
  }

  void end_sparing(ValueId id) {
    if (spared_.erase(id) > 0) unlock(id);
  }

  bool end_all_sparing() {
    const std::set<ValueId> spared = std::move(spared_);
    spared_.clear();
    for (const ValueId id : spared) unlock(id);
    return !spared.empty();
  }

  // Finds room for a value, which is to be bound there.
  Outcome place(ValueId id, Kind kind, std::int64_t& address) {
    const std::int64_t bytes = memory_.values().value(id).bytes;
    if (bytes == 0) return Outcome::kFine;
    std::optional<std::int64_t> found;
    while (!(found = memory_.take(bytes, kind))) {
      const std::span<const ValueId> victims = memory_.victims(bytes);
      if (victims.empty() && !end_all_sparing()) {
        run_.short_of = bytes;
        return Outcome::kOutOfMemory;
      }
      for (const ValueId victim : victims) {
        record(RematStep::kEvict, log_value(victim));
        memory_.evict(victim);
      }
    }
    address = *found;
    record(RematStep::kPlace, log_value(id), address);
    return Outcome::kFine;
  }

  Outcome constant(std::size_t value) {
    const ValueId id = memory_.add_constant(log_.size[value]);
    id_of_[value] = id;
    log_value(id) = static_cast<std::int64_t>(value);
    std::int64_t address = 0;
    const Outcome outcome = place(id, Kind::kConstant, address);
    if (outcome == Outcome::kFine) memory_.bind(id, address);
    return outcome;
  }

  Outcome first_run(std::size_t call) {
    std::vector<ValueId> reads;
    for (const std::int64_t value : reads_of(call)) reads.push_back(id_of(value));
    if (const Outcome outcome = make_resident(reads); outcome != Outcome::kFine) return outcome;
    if (const Outcome outcome = secure_dependents(call); outcome != Outcome::kFine) return outcome;
    if (writes_of(call).empty()) {
      memory_.advance(log_.cost[call]);
      record(RematStep::kRun, static_cast<std::int64_t>(call));
    } else if (const Outcome outcome = run(add_call(call, reads), true); outcome != Outcome::kFine) {
      return outcome;
    }
    for (const ValueId read : reads) unlock(read);
    if (log_.takes[call] >= 0) let_go(static_cast<std::size_t>(log_.takes[call]));
    return Outcome::kFine;
  }

  CallId add_call(std::size_t call, const std::vector<ValueId>& reads) {
    std::vector<std::int64_t> bytes;
    std::int64_t written = 0;
    for (const std::int64_t value : writes_of(call)) {
      bytes.push_back(log_.size[static_cast<std::size_t>(value)]);
      written += bytes.back();
    }
    if (density_.is_expensive(log_.cost[call], written)) kind_[call] = Kind::kExpensive;
    const CallId id = memory_.add_call(log_.cost[call], reads, bytes);
    log_call(id) = static_cast<std::int64_t>(call);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const ValueId value = memory_.values().call(id).writes[i];
      const std::int64_t in_log = writes_of(call)[i];
      id_of_[static_cast<std::size_t>(in_log)] = value;
      log_value(value) = in_log;
    }
    return id;
  }

  // Before a call writes over a value that cannot be made again: all that is held and needs it.
  Outcome secure_dependents(std::size_t call) {
    const std::int64_t taken = log_.takes[call];
    if (taken < 0 || memory_.values().is_recomputable(id_of(taken))) return Outcome::kFine;
    for (const ValueId id : memory_.dependents(id_of(taken))) {
      if (const Outcome outcome = pin(id); outcome != Outcome::kFine) return outcome;
    }
    return Outcome::kFine;
  }

  // Locks all these values, then recomputes those that are evicted.
  Outcome make_resident(const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) lock(id);
    for (const ValueId id : ids) {
      if (memory_.values().value(id).is_resident) continue;
      if (const Outcome outcome = recompute(memory_.values().value(id).call); outcome != Outcome::kFine) return outcome;
    }
    return Outcome::kFine;
  }

  // The program still holds these.
  Outcome finish() {
    std::vector<ValueId> held;
    for (const ValueId id : id_of_) {
      if (id != kNobody && memory_.values().value(id).is_held) held.push_back(id);
    }
    const auto serial = [&](ValueId id) { return memory_.values().value(id).serial; };
    std::sort(held.begin(), held.end(), [&](ValueId a, ValueId b) { return serial(a) < serial(b); });
    return make_resident(held);
  }

  // Runs a call again after all that it needs, without recursion: a chain may be as long as the program.
  //
  // Deviation: DTR locks all arguments that are resident before it makes the others. Here a call that runs again locks
  // those that are not, one after the other, and the rest when it runs, as the runtime does. Measured on DTR's logs at
  // 0.3 of the peak: Coop runs on the LSTM where DTR's rule is out of memory; dtr on DenseNet takes 424 % in the place
  // of 45.
  Outcome recompute(CallId id) {
    std::vector<Frame> stack{{id}};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<ValueId>& reads = memory_.values().call(frame.id).reads;
      const auto is_missing = [&](ValueId read) { return !memory_.values().value(read).is_resident; };
      if (const auto missing = std::find_if(reads.begin(), reads.end(), is_missing); missing != reads.end()) {
        lock(*missing);
        frame.locked.push_back(*missing);
        stack.push_back({memory_.values().value(*missing).call});
        continue;
      }
      for (const ValueId read : reads) {
        if (frame.has_locked(read)) continue;
        lock(read);
        frame.locked.push_back(read);
      }
      const Frame ready = std::move(frame);
      stack.pop_back();
      if (const Outcome outcome = run(ready.id, false); outcome != Outcome::kFine) return outcome;
      for (const ValueId read : ready.locked) unlock(read);
    }
    return Outcome::kFine;
  }

  // All that the call reads is resident and locked.
  Outcome run(CallId id, bool is_first) {
    const auto call = static_cast<std::size_t>(log_call(id));
    const std::vector<ValueId> writes = memory_.values().call(id).writes;
    std::vector<std::pair<ValueId, std::int64_t>> placed;  // bound when all are: what has no value is never evicted
    std::optional<ValueId> taking;
    for (const ValueId written : writes) {
      if (written == kNobody || memory_.values().value(written).is_resident) continue;
      if (can_take_over(call, written)) {
        taking = written;
        continue;
      }
      placed.emplace_back(written, 0);
      if (const Outcome outcome = place(written, kind_[call], placed.back().second); outcome != Outcome::kFine) {
        return outcome;
      }
    }
    for (const auto& [written, address] : placed) memory_.bind(written, address);
    if (taking) {
      memory_.take_over(id_of(log_.takes[call]), *taking);
      record(RematStep::kTakeOver, log_value(*taking), memory_.values().value(*taking).address);
    }
    memory_.ran(id);
    settle();
    record(is_first ? RematStep::kRun : RematStep::kRerun, static_cast<std::int64_t>(call));
    if (is_first) return Outcome::kFine;
    ++run_.recomputed_calls;
    run_.recomputed_cost += log_.cost[call];
    return static_cast<double>(run_.recomputed_cost) > most_recomputed_ ? Outcome::kThrashing : Outcome::kFine;
  }

  bool can_take_over(std::size_t call, ValueId written) {
    const std::int64_t taken = log_.takes[call];
    return taken >= 0 && log_value(written) == writes_of(call)[0] && memory_.can_take_over(id_of(taken), written);
  }

  OperatorLog log_;
  Memory memory_;
  CallDensity density_;
  bool with_history_;
  double most_recomputed_ = 0;
  std::vector<ValueId> id_of_;           // of values of the log; kNobody before they appear and once they are forgotten
  std::vector<std::int64_t> log_value_;  // of values of the memory
  std::vector<std::int64_t> log_call_;   // of calls of the memory
  std::vector<Kind> kind_;               // of calls of the log
  std::set<ValueId> spared_;
  RematRun run_;
};

}  // namespace

bool CallDensity::is_expensive(std::int64_t cost, std::int64_t bytes) {
  if (bytes <= 0) return false;
  cost_ += static_cast<double>(cost);
  bytes_ += static_cast<double>(bytes);
  return static_cast<double>(cost) / static_cast<double>(bytes) >= cost_ / bytes_;
}

RematRun simulate_remat(const OperatorLog& log, std::int64_t budget, std::int64_t alignment, const remat::Rules& rules,
                        double limit, bool with_history) {
  check_log(log);
  if (!(limit >= 0 && limit <= kMostLimit)) throw std::invalid_argument("the limit of recomputation is not 0 to 1000");
  return Driver(log, budget, alignment, rules, limit, with_history).run();
}

}  // namespace edgemem
