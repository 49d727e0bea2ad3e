// How a request gets room that does not fit: the pool grows, values are evicted, blocks are moved together.
#include <algorithm>
#include <cstring>

#include "remat_runtime/runtime.h"

namespace edgemem::remat {

namespace {

constexpr std::int64_t kGrowth = std::int64_t{1} << 26;  // bytes at a time, at least

}  // namespace

bool Runtime::make_room(std::int64_t bytes) {
  if (is_lifted_) {
    const std::int64_t more = (bytes + kGrowth) / kGrowth * kGrowth;
    if (!addresses_.grow(more)) {
      return false;
    }
    memory_.grow(more);
    return true;
  }
  const auto found = memory_.victims(bytes);
  victims_.assign(found.begin(), found.end());
  for (const ValueId victim : victims_) {
    evict(victim);
  }
  settle();
  // Only what is not contiguous may be in the way.
  return !victims_.empty() || compact(false) || (!is_patient_ && end_all_sparing());
}

// False: its storage cannot be emptied, and it is pinned.
bool Runtime::evict(ValueId value) {
  void* storage = storage_of(value);
  // Of a value without a storage there is nothing to empty.
  const bool is_empty = storage == nullptr || evict_(storage, value) != 0;
  // Emptying a storage drops the last reference to it if another thread drops its own meanwhile.
  if (!is_resident(value)) {
    return true;
  }
  if (is_empty) {
    memory_.evict(value);
  } else {
    memory_.pin(value);
  }
  return is_empty;
}

// Whether anything was moved.
bool Runtime::compact(bool with_locked) {
  const std::int64_t before = stats_.moves;
  memory_.compact([&](ValueId value, std::int64_t from, std::int64_t to, std::int64_t bytes) {
    const Holder& holder = holder_of(value);
    if (holder.is_fixed || (!with_locked && memory_.values().value(value).locks > 0)) {
      return false;
    }
    char* base = addresses_.base();
    if (holder.storage == nullptr) {
      std::memmove(base + to, base + from, static_cast<std::size_t>(bytes));
    } else if (move_(holder.storage, base + from, base + to, bytes) == 0) {
      return false;
    }
    ++stats_.moves;
    stats_.moved_bytes += bytes;
    return true;
  });
  return stats_.moves > before;
}

void Runtime::spare(ValueId value) {
  check_known({&value, 1});
  if (!holder_of(value).is_spared && is_resident(value) && is_recomputable(value)) {
    memory_.lock(value);
    holder_of(value).is_spared = true;
  }
}

bool Runtime::end_sparing(ValueId value) {
  if (!holder_of(value).is_spared) {
    return false;
  }
  holder_of(value).is_spared = false;
  memory_.unlock(value);
  return true;
}

bool Runtime::end_all_sparing() {
  bool is_any = false;
  for (const Memory::UsedBlock& block : memory_.used_blocks()) {
    is_any = (block.owner != kNobody && end_sparing(block.owner)) || is_any;
  }
  return is_any;
}

void Runtime::fix(ValueId value) {
  check_known({&value, 1});
  holder_of(value).is_fixed = true;
}

void Runtime::clear() {
  is_patient_ = false;
  for (const Memory::UsedBlock& block : memory_.used_blocks()) {
    if (block.owner != kNobody && memory_.values().is_evictable(block.owner)) {
      evict(block.owner);
    }
  }
  settle();
  compact(true);
}

std::int64_t Runtime::fixed_bytes() const {
  std::int64_t bytes = 0;
  for (const Memory::UsedBlock& block : memory_.used_blocks()) {
    const bool is_fixed = block.owner == kNobody || !memory_.values().is_evictable(block.owner);
    bytes += is_fixed ? block.bytes : 0;
  }
  return bytes;
}

}  // namespace edgemem::remat
