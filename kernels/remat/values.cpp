#include "remat/values.h"

#include <algorithm>
#include <stdexcept>

namespace edgemem::remat {

namespace {

// A number for a new item of a table: one that is free, else the next.
template <typename Item>
std::int64_t new_number(std::vector<Item>& table, std::vector<std::int64_t>& spare) {
  if (spare.empty()) {
    table.emplace_back();
    return static_cast<std::int64_t>(table.size()) - 1;
  }
  const std::int64_t number = spare.back();
  spare.pop_back();
  table[static_cast<std::size_t>(number)] = Item{};
  return number;
}

}  // namespace

ValueId Values::add_constant(std::int64_t bytes) {
  if (bytes < 0) throw std::invalid_argument("a value of less than no bytes");
  const ValueId id = new_number(values_, spare_values_);
  Value& made = at(id);
  made.bytes = bytes;
  made.is_known = made.is_held = true;
  made.serial = serial_++;
  made.last_access = clock_;
  return id;
}

CallId Values::add_call(std::int64_t cost, std::span<const ValueId> reads, std::span<const std::int64_t> bytes) {
  if (cost < 0) throw std::invalid_argument("a call that takes less than no time");
  if (bytes.empty()) throw std::invalid_argument("a call that writes nothing is not kept");
  for (const ValueId read : reads) {
    if (!is_known(read)) throw std::invalid_argument("a call reads a value that is not known");
  }
  for (const std::int64_t count : bytes) {
    if (count < 0) throw std::invalid_argument("a value of less than no bytes");
  }
  const CallId id = new_number(calls_, spare_calls_);
  Call& made = call_at(id);
  made.cost = cost;
  made.is_known = true;
  made.wanted = static_cast<std::int64_t>(bytes.size());
  for (const ValueId read : reads) {
    std::vector<CallId>& readers = at(read).read_by;
    if (!readers.empty() && readers.back() == id) continue;
    made.reads.push_back(read);
    made.places.push_back(readers.size());
    readers.push_back(id);
  }
  for (const std::int64_t count : bytes) {
    const ValueId written = add_constant(count);
    at(written).call = id;
    made.writes.push_back(written);
  }
  return id;
}

bool Values::is_known(ValueId id) const {
  return id >= 0 && id < static_cast<std::int64_t>(values_.size()) && value(id).is_known;
}

bool Values::is_evictable(ValueId id) const {
  return value(id).is_resident && value(id).locks == 0 && is_recomputable(id);
}

bool Values::is_idle(ValueId id) const { return is_evictable(id) && !value(id).is_held && !value(id).is_made_again; }

template <typename Visit>
void Values::for_each_evicted_neighbour(ValueId id, const Visit& visit) const {
  if (is_recomputable(id)) {
    for (const ValueId read : call(value(id).call).reads) {
      if (value(read).set != kNobody) visit(read);
    }
  }
  for (const CallId reader : value(id).read_by) {
    for (const ValueId written : call(reader).writes) {
      if (written != kNobody && value(written).set != kNobody) visit(written);
    }
  }
}

std::int64_t Values::projected_cost(ValueId id) {
  ++stamp_;
  std::int64_t cost = is_recomputable(id) ? call(value(id).call).cost : 0;
  for_each_evicted_neighbour(id, [&](ValueId neighbour) {
    Set& set = sets_[static_cast<std::size_t>(value(neighbour).set)];
    if (set.seen == stamp_) return;
    set.seen = stamp_;
    cost += set.cost;
  });
  return cost;
}

std::int64_t Values::staleness(ValueId id) const { return std::max<std::int64_t>(1, clock_ - value(id).last_access); }

void Values::set_resident(ValueId id, std::int64_t address) {
  leave_set(id);
  Value& placed = at(id);
  // A block that moves is resident already.
  placed.is_made_again = placed.is_resident ? placed.is_made_again : !placed.is_held;
  placed.is_resident = true;
  placed.address = address;
}

void Values::set_evicted(ValueId id) {
  Value& evicted = at(id);
  evicted.is_resident = false;
  evicted.address = kNotResident;
  if (!is_recomputable(id)) return;
  std::int64_t own = new_number(sets_, spare_sets_);
  sets_[static_cast<std::size_t>(own)] = {.cost = call(evicted.call).cost, .members = 1, .first = id};
  evicted.set = own;
  evicted.before_in_set = evicted.after_in_set = kNobody;
  for_each_evicted_neighbour(id, [&](ValueId neighbour) { own = united(own, value(neighbour).set); });
}

void Values::leave_set(ValueId id) {
  Value& leaving = at(id);
  if (leaving.set == kNobody) return;
  Set& set = sets_[static_cast<std::size_t>(leaving.set)];
  set.cost -= call(leaving.call).cost;
  (leaving.before_in_set == kNobody ? set.first : at(leaving.before_in_set).after_in_set) = leaving.after_in_set;
  if (leaving.after_in_set != kNobody) at(leaving.after_in_set).before_in_set = leaving.before_in_set;
  if (--set.members == 0) spare_sets_.push_back(leaving.set);
  leaving.set = kNobody;
}

// One set of two, with the number of the larger: each value changes its set a logarithmic number of times.
std::int64_t Values::united(std::int64_t one, std::int64_t other) {
  if (one == other) return one;
  if (sets_[static_cast<std::size_t>(one)].members < sets_[static_cast<std::size_t>(other)].members) {
    std::swap(one, other);
  }
  Set& larger = sets_[static_cast<std::size_t>(one)];
  Set& smaller = sets_[static_cast<std::size_t>(other)];
  for (ValueId id = smaller.first; id != kNobody;) {
    const ValueId next = value(id).after_in_set;
    at(id).set = one;
    at(id).before_in_set = kNobody;
    at(id).after_in_set = larger.first;
    at(larger.first).before_in_set = id;
    larger.first = id;
    id = next;
  }
  larger.cost += smaller.cost;
  larger.members += smaller.members;
  spare_sets_.push_back(other);
  return one;
}

void Values::ran(CallId id) {
  Call& done = call_at(id);
  clock_ += done.cost;
  for (const ValueId written : done.writes) {
    if (written != kNobody && !done.has_run) touch(written);
  }
  done.has_run = true;
}

void Values::unlock(ValueId id) {
  --at(id).locks;
  forget_unneeded(id);
}

void Values::let_go(ValueId id) {
  at(id).is_held = false;
  forget_unneeded(id);
}

void Values::pin(ValueId id) { unwrite(id); }

// The call does not make this value any more; where it makes no other, it and what only it needed are forgotten.
void Values::unwrite(ValueId id) {
  const CallId by = value(id).call;
  if (by == kNobody) return;
  leave_set(id);
  at(id).call = kNobody;
  Call& call = call_at(by);
  std::replace(call.writes.begin(), call.writes.end(), id, kNobody);
  if (--call.wanted > 0) return;
  call.is_known = false;
  spare_calls_.push_back(by);
  const std::vector<ValueId> reads = std::move(call.reads);
  for (std::size_t i = 0; i < reads.size(); ++i) remove_reader(reads[i], call.places[i]);
  for (const ValueId read : reads) forget_unneeded(read);
}

// The last reader takes the place of the one that goes: a constant may be read by all calls of the program.
void Values::remove_reader(ValueId id, std::size_t place) {
  std::vector<CallId>& readers = at(id).read_by;
  const CallId last = readers.back();
  readers.pop_back();
  if (place == readers.size()) return;
  readers[place] = last;
  Call& moved = call_at(last);
  const auto read = std::find(moved.reads.begin(), moved.reads.end(), id);
  moved.places[static_cast<std::size_t>(read - moved.reads.begin())] = place;
}

// Forgets the value if nobody needs it, and then what only it needed. A chain of values is forgotten without recursion:
// the innermost call of this function leaves the work to the outermost.
void Values::forget_unneeded(ValueId id) {
  pending_.push_back(id);
  if (is_forgetting_) return;
  is_forgetting_ = true;
  while (!pending_.empty()) {
    const ValueId next = pending_.back();
    pending_.pop_back();
    Value& value = at(next);
    if (!value.is_known || value.is_held || value.locks > 0 || !value.read_by.empty()) continue;
    value.is_known = false;
    forgotten_.push_back(next);
    unwrite(next);
  }
  is_forgetting_ = false;
}

std::vector<ValueId> Values::dependents(ValueId id) const {
  std::vector<bool> is_seen(values_.size());
  std::vector<ValueId> found, open{id};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    for (const CallId reader : value(next).read_by) {
      for (const ValueId written : call(reader).writes) {
        if (written == kNobody || is_seen[static_cast<std::size_t>(written)]) continue;
        is_seen[static_cast<std::size_t>(written)] = true;
        open.push_back(written);
        if (value(written).is_held) found.push_back(written);
      }
    }
  }
  std::sort(found.begin(), found.end(), [&](ValueId a, ValueId b) { return value(a).serial < value(b).serial; });
  return found;
}

std::span<const ValueId> Values::take_forgotten() {
  spare_values_.insert(spare_values_.end(), handed_out_.begin(), handed_out_.end());
  handed_out_.clear();
  std::swap(handed_out_, forgotten_);
  return handed_out_;
}

}  // namespace edgemem::remat
