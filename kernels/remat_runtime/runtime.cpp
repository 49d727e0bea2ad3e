#include "remat_runtime/runtime.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "arena/memory.h"
#include "arena/totals.h"

namespace edgemem::remat {

namespace {

constexpr std::int64_t kAlignment = 64;                         // of PyTorch's own allocator
constexpr std::int64_t kMostAddresses = std::int64_t{1} << 40;  // to grow into once there is no budget
constexpr const char* kNotTaken = "the memory of a value that is used elsewhere cannot be taken over";
constexpr int kPoison = 0xFF;  // not a number, in all floating-point formats

std::int64_t padded(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::int64_t whole(std::int64_t budget) { return std::max<std::int64_t>(budget, 0) / kAlignment * kAlignment; }

}  // namespace

Runtime::Runtime(std::int64_t budget, Rules rules, em_remat_evict evict, em_remat_move move, bool poison)
    : addresses_(whole(budget), kMostAddresses),
      memory_(whole(budget), kAlignment, rules),
      evict_(evict),
      move_(move),
      budget_(budget),
      poison_(poison),
      is_lifted_(budget < 0) {}

void* Runtime::allocate(std::int64_t bytes) {
  std::optional<std::int64_t> offset;
  while (!(offset = memory_.take(bytes, kind_))) {
    if (!make_room(bytes)) {
      ++stats_.refused;
      stats_.refused_bytes = bytes;
      stats_.refused_fixed = fixed_bytes();
      set_error("no room for %lld bytes under the budget", static_cast<long long>(bytes));
      return nullptr;
    }
  }
  stats_.taken_bytes += padded(bytes);
  char* block = addresses_.base() + *offset;
  if (poison_) {
    std::memset(block, kPoison, static_cast<std::size_t>(bytes));
  }
  return block;
}

void Runtime::free(void* block) {
  const std::int64_t offset = offset_of(block);
  if (is_stopped_) {
    const auto found = left_.find(offset);
    if (found != left_.end()) {
      addresses_.discard(offset, found->second);
      left_.erase(found);
    }
    return;
  }
  const ValueId owner = owner_of(block);
  if (owner == kNobody) {
    memory_.give(offset);
    return;
  }
  dropped(owner);
}

void Runtime::dropped(ValueId value) {
  if (is_stopped_ || !memory_.values().is_known(value) || !memory_.values().value(value).is_held) {
    return;
  }
  end_sparing(value);
  storage_of(value) = nullptr;
  memory_.let_go(value);
  settle();
}

void Runtime::lift() {
  if (!is_lifted_) {
    const em_remat_stats last = stats();
    peak_before_lift_ = last.peak;
    stats_ = last;
    is_lifted_ = true;
  }
}

void Runtime::stop() {
  stats_ = stats();
  is_stopped_ = true;
  std::int64_t end = 0;  // of the last block that stays
  for (const Memory::UsedBlock& block : memory_.used_blocks()) {
    if (block.owner != kNobody && !memory_.values().value(block.owner).is_held) continue;
    left_.emplace(block.address, block.bytes);
    addresses_.discard(end, block.address - end);
    end = block.address + block.bytes;
  }
  addresses_.discard(end, memory_.bytes() - end);
  addresses_.trim();
}

bool Runtime::is_unowned(const void* block) const {
  if (block == nullptr || !contains(block)) {
    return false;
  }
  return memory_.owner_at(offset_of(block)) == kNobody;
}

ValueId Runtime::owner_of(const void* block) const { return std::max(memory_.owner_at(offset_of(block)), kNobody); }

Runtime::Holder& Runtime::holder_of(ValueId value) {
  const auto index = static_cast<std::size_t>(value);
  if (index >= holders_.size()) {
    holders_.resize(std::max(index + 1, 2 * holders_.size()));
  }
  return holders_[index];
}

// A constant whose memory is not of the pool: nobody tells when its storage dies.
bool Runtime::is_outside(ValueId value) const {
  const Values::Value& known = memory_.values().value(value);
  return known.call == kNobody && known.bytes == 0;
}

ValueId Runtime::add_constant(const void* block, void* storage) {
  if (!is_unowned(block)) {
    const ValueId value = memory_.add_constant(0);
    set_storage(value, nullptr);
    memory_.bind(value, 0);
    return value;
  }
  const std::int64_t offset = offset_of(block);
  const ValueId value = memory_.add_constant(memory_.bytes_at(offset));
  memory_.bind(value, offset);
  set_storage(value, storage);
  return value;
}

std::int64_t Runtime::lock(std::span<const ValueId> values, Kind kind, bool is_patient) {
  const auto is_known = [this](ValueId value) { return memory_.values().is_known(value); };
  if (!std::all_of(values.begin(), values.end(), is_known)) {
    return -1;
  }
  std::int64_t missing = 0;
  for (const ValueId value : values) {
    end_sparing(value);
    memory_.lock(value);
    missing += memory_.values().value(value).is_resident ? 0 : 1;
  }
  kind_ = kind;
  is_patient_ = is_patient;
  return missing;
}

void Runtime::check_known(std::span<const ValueId> values) const {
  for (const ValueId value : values) {
    if (!memory_.values().is_known(value)) throw std::invalid_argument("there is no such value");
  }
}

void Runtime::unlock(std::span<const ValueId> values) {
  check_known(values);
  for (const ValueId value : values) {
    if (memory_.values().value(value).locks == 0) throw std::invalid_argument("the value is not locked");
  }
  for (const ValueId value : values) {
    if (is_outside(value) && memory_.values().value(value).is_held) {
      memory_.let_go(value);
    }
    memory_.unlock(value);
  }
  kind_ = Kind::kConstant;
  is_patient_ = false;
  settle();
}

bool Runtime::can_be_taken(ValueId value) const {
  return memory_.rules().in_place && is_resident(value) && memory_.values().value(value).locks == 1;
}

void Runtime::ran_without_results(std::int64_t cost, std::span<const ValueId> reads) {
  check_known(reads);
  memory_.advance(cost);
}

bool Runtime::ran(std::int64_t cost, std::span<const ValueId> reads, std::span<em_remat_result> results) {
  check_known(reads);
  std::vector<std::int64_t> bytes;
  for (const em_remat_result& result : results) {
    const bool is_taken = result.takes != kNobody;
    if (is_taken ? !can_be_taken(result.takes) : !is_unowned(result.block)) {
      set_error(is_taken ? kNotTaken : "a result does not lie in a block of its own");
      return false;
    }
    bytes.push_back(is_taken ? memory_.values().value(result.takes).bytes : memory_.bytes_at(offset_of(result.block)));
  }
  const CallId call = memory_.add_call(cost, reads, bytes);
  const std::vector<ValueId> writes = memory_.values().call(call).writes;
  for (std::size_t k = 0; k < writes.size(); ++k) {
    results[k].value = writes[k];
    void* storage = results[k].storage;
    if (results[k].takes == kNobody) {
      memory_.bind(writes[k], offset_of(results[k].block));
    } else {
      storage = storage_of(results[k].takes);
      memory_.take_over(results[k].takes, writes[k]);
      storage_of(results[k].takes) = nullptr;
      memory_.let_go(results[k].takes);
    }
    set_storage(writes[k], storage);
  }
  memory_.ran(call);
  settle();
  return true;
}

ValueId Runtime::make_constant(ValueId value) {
  check_known({&value, 1});
  const ValueId constant = memory_.add_constant(memory_.values().value(value).bytes);
  if (!memory_.take_over(value, constant)) {
    memory_.let_go(constant);
    settle();
    set_error(kNotTaken);
    return kNobody;
  }
  set_storage(constant, storage_of(value));
  storage_of(value) = nullptr;
  memory_.let_go(value);
  settle();
  return constant;
}

bool Runtime::remade(ValueId value, const void* block, void* storage) {
  check_known({&value, 1});
  if (!is_unowned(block) || is_resident(value) ||
      memory_.bytes_at(offset_of(block)) != memory_.values().value(value).bytes) {
    set_error("what was made again does not lie in a block of its own, or has another size");
    return false;
  }
  memory_.bind(value, offset_of(block));
  if (!memory_.values().value(value).is_held) {
    memory_.hold(value);
  }
  storage_of(value) = storage;
  return true;
}

bool Runtime::take_over(ValueId old_version, ValueId new_version, void* storage) {
  check_known(std::array{old_version, new_version});
  if (!memory_.take_over(old_version, new_version)) {
    set_error(kNotTaken);
    return false;
  }
  storage_of(old_version) = nullptr;
  if (memory_.values().value(old_version).is_held) {
    memory_.let_go(old_version);
  }
  memory_.hold(new_version);
  storage_of(new_version) = storage;
  settle();
  return true;
}

void Runtime::repeated(ValueId written, std::int64_t cost) {
  ++stats_.recomputed_calls;
  stats_.recomputed_ns += cost;
  if (memory_.values().is_known(written) && memory_.values().is_recomputable(written)) {
    memory_.ran(memory_.values().value(written).call);
    settle();
  }
}

void Runtime::pin(ValueId value) {
  if (is_resident(value) && is_recomputable(value)) {
    memory_.pin(value);
    settle();
  }
}

void* Runtime::lend(ValueId value, void* storage) {
  if (!is_resident(value) || (storage_of(value) != nullptr && storage_of(value) != storage)) {
    set_error("the value does not lie in memory without a storage");
    return nullptr;
  }
  if (storage_of(value) == nullptr) {
    memory_.hold(value);
    storage_of(value) = storage;
  }
  return addresses_.base() + memory_.values().value(value).address;
}

bool Runtime::is_resident(ValueId value) const {
  return memory_.values().is_known(value) && memory_.values().value(value).is_resident;
}

bool Runtime::is_recomputable(ValueId value) const {
  return memory_.values().is_known(value) && memory_.values().is_recomputable(value);
}

std::span<const ValueId> Runtime::dependents(ValueId value) {
  check_known({&value, 1});
  return dependents_ = memory_.dependents(value);
}

std::span<const ValueId> Runtime::take_forgotten() {
  const auto found = memory_.take_forgotten();
  forgotten_.assign(found.begin(), found.end());
  settle();
  return forgotten_;
}

// Values leave memory by themselves only when nobody holds them: they have no storage that would have to be emptied.
void Runtime::settle() {
  memory_.take_released();
  stats_.forgotten = static_cast<std::int64_t>(memory_.values().forgotten().size());
}

em_remat_stats Runtime::stats() const {
  em_remat_stats now = stats_;
  if (is_stopped_) {
    return now;
  }
  now.used = memory_.used();
  now.pinned = 0;
  for (const Memory::UsedBlock& block : memory_.used_blocks()) {
    const bool is_pinned = block.owner == kNobody || !memory_.values().is_recomputable(block.owner);
    now.pinned += is_pinned ? block.bytes : 0;
  }
  const MemoryCounts& counts = memory_.counts();
  now.last_peak = counts.peak;
  if (peak_before_lift_ >= 0) {
    return now;  // the rest is of the time before
  }
  now.budget = budget_;
  now.peak = counts.peak;
  now.requests = counts.requests;
  now.evictions = counts.evictions;
  now.evicted_bytes = counts.evicted_bytes;
  now.searches = counts.searches;
  now.evaluations = counts.evaluations;
  now.search_ns = counts.search_ns;
  now.fragmentation = is_lifted_ ? 0 : counts.fragmentation();
  return now;
}

}  // namespace edgemem::remat
