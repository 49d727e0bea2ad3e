#include "remat/memory.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>

namespace edgemem::remat {

namespace {

// Of the budget: the largest request that is small, and the pool of small ones.
constexpr std::int64_t kSmallRequest = 65536;
constexpr std::int64_t kSmallPool = 256;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The budget, down to the alignment.
std::int64_t aligned(std::int64_t bytes, std::int64_t alignment) {
  if (alignment <= 0) throw std::invalid_argument("an alignment of a memory is not positive");
  if (bytes < 0) throw std::invalid_argument("a memory of less than no bytes");
  return bytes - bytes % alignment;
}

}  // namespace

Memory::Memory(std::int64_t bytes, std::int64_t alignment, Rules rules)
    : rules_(rules),
      alignment_(alignment),
      most_small_(rules.small_apart ? aligned(bytes, alignment) / kSmallRequest : 0),
      small_(most_small_ < alignment ? 0 : aligned(bytes / kSmallPool, alignment)),
      pool_(aligned(bytes, alignment) - small_.bytes()) {}

std::int64_t Memory::padded(std::int64_t bytes) const {
  if (bytes <= 0) throw std::invalid_argument("a request for no bytes");
  if (bytes > std::numeric_limits<std::int64_t>::max() - alignment_) {
    throw std::invalid_argument("a request for more bytes than there are addresses");
  }
  return (bytes + alignment_ - 1) / alignment_ * alignment_;
}

Pool::Index Memory::block_at(std::int64_t address) const {
  return pool_at(address).used_at(is_small(address) ? address : address - small_.bytes());
}

std::int64_t Memory::owner_at(std::int64_t address) const {
  const Pool::Index block = block_at(address);
  return block == Pool::kNone ? kNoBlock : pool_at(address).block(block).owner;
}

std::int64_t Memory::bytes_at(std::int64_t address) const {
  const Pool::Index block = block_at(address);
  return block == Pool::kNone ? 0 : pool_at(address).block(block).bytes;
}

std::vector<Memory::UsedBlock> Memory::used_blocks() const {
  std::vector<UsedBlock> found;
  const auto add = [&found](const Pool& pool, std::int64_t begin) {
    for (Pool::Index i = pool.first(); i != Pool::kNone; i = pool.block(i).after) {
      const Pool::Block& block = pool.block(i);
      if (!block.is_free) found.push_back({begin + block.address, block.bytes, block.owner});
    }
  };
  add(small_, 0);
  add(pool_, small_.bytes());
  return found;
}

std::optional<std::int64_t> Memory::take(std::int64_t bytes, Kind kind) {
  const std::int64_t wanted = padded(bytes);
  std::optional<std::int64_t> address;
  if (wanted <= most_small_) address = take_small(wanted);
  if (!address) address = take_large(wanted, kind);
  if (!address) {
    if (!is_short_) {
      ++counts_.shortages;
      const std::int64_t free = pool_.bytes() - pool_.used();
      counts_.fragmentation_sum += free == 0 ? 0 : static_cast<double>(free) / static_cast<double>(this->bytes());
    }
    is_short_ = true;
    return std::nullopt;
  }
  is_short_ = false;
  ++counts_.requests;
  counts_.peak = std::max(counts_.peak, used());
  return address;
}

std::optional<std::int64_t> Memory::take_small(std::int64_t wanted) {
  const Pool::Index found = small_.leftmost(wanted);
  if (found == Pool::kNone) return std::nullopt;
  return small_.block(small_.take_left(found, wanted, kNobody)).address;
}

std::optional<std::int64_t> Memory::take_large(std::int64_t wanted, Kind kind) {
  bool is_left = !rules_.partition || kind != Kind::kCheap;
  Pool::Index found;
  if (kind == Kind::kConstant && rules_.constants_at_ends) {
    found = pool_.leftmost(wanted);
    if (found == Pool::kNone) return std::nullopt;
    const Pool::Index right = pool_.rightmost(wanted);
    const Pool::Block& last = pool_.block(right);
    is_left = pool_.block(found).address <= pool_.bytes() - (last.address + last.bytes);
    if (!is_left) found = right;
  } else if (rules_.fit == Fit::kBest) {
    found = pool_.best(wanted);
  } else {
    found = is_left ? pool_.leftmost(wanted) : pool_.rightmost(wanted);
  }
  if (found == Pool::kNone) return std::nullopt;
  const Pool::Index used = is_left ? pool_.take_left(found, wanted, kNobody) : pool_.take_right(found, wanted, kNobody);
  return small_.bytes() + pool_.block(used).address;
}

void Memory::give(std::int64_t address) {
  if (owner_at(address) != kNobody) throw std::invalid_argument("no block without a value begins at this address");
  pool_at(address).give(block_at(address));
}

void Memory::bind(ValueId id, std::int64_t address) {
  if (values_.value(id).bytes > 0) {
    if (owner_at(address) != kNobody) throw std::invalid_argument("no block without a value begins at this address");
    pool_at(address).set_owner(block_at(address), id);
  }
  values_.set_resident(id, address);
}

double Memory::heuristic(const Pool::Block& block) {
  ++counts_.evaluations;
  const auto cost = static_cast<double>(values_.projected_cost(block.owner));
  const auto staleness = static_cast<double>(values_.staleness(block.owner));
  if (rules_.heuristic == Heuristic::kCoop) return cost / staleness;
  std::int64_t bytes = block.bytes;
  if (rules_.heuristic == Heuristic::kDte) {
    for (const Pool::Index beside : {block.before, block.after}) {
      if (beside != Pool::kNone && pool_.block(beside).is_free) bytes += pool_.block(beside).bytes;
    }
  }
  return cost / (static_cast<double>(bytes) * staleness);
}

std::span<const ValueId> Memory::victims(std::int64_t bytes) {
  const std::int64_t wanted = padded(bytes);
  const std::int64_t start = now_ns();
  ++counts_.searches;
  victims_.clear();
  if (rules_.search == Search::kOneByOne) {
    find_cheapest();
  } else {
    find_window(wanted);
  }
  counts_.search_ns += now_ns() - start;
  return victims_;
}

void Memory::find_window(std::int64_t wanted) {
  layout_.clear();
  owners_.clear();
  for (Pool::Index i = pool_.first(); i != Pool::kNone; i = pool_.block(i).after) {
    const Pool::Block& block = pool_.block(i);
    double cost = block.is_free ? 0 : WindowBlock::kUnevictable;
    if (!block.is_free && block.owner != kNobody && values_.is_evictable(block.owner)) cost = heuristic(block);
    layout_.push_back({block.bytes, cost, block.is_free});
    owners_.push_back(block.owner);
  }
  const Window window =
      cheapest_window(layout_, wanted, rules_.search == Search::kWindow ? Objective::kSum : Objective::kPerByte);
  if (!window.found) return;
  for (std::size_t i = window.first; i <= window.last; ++i) {
    if (!layout_[i].is_free) victims_.push_back(owners_[i]);
  }
}

void Memory::find_cheapest() {
  double least = 0;
  for (Pool::Index i = pool_.first(); i != Pool::kNone; i = pool_.block(i).after) {
    const Pool::Block& block = pool_.block(i);
    if (block.is_free || block.owner == kNobody || !values_.is_evictable(block.owner)) continue;
    const double cost = heuristic(block);
    if (!victims_.empty() && !(cost < least)) continue;
    least = cost;
    victims_.assign(1, block.owner);
  }
}

void Memory::evict(ValueId id) {
  if (!values_.is_known(id) || !values_.is_evictable(id)) throw std::invalid_argument("the value cannot be evicted");
  ++counts_.evictions;
  counts_.evicted_bytes += values_.value(id).bytes;
  leave_memory(id);
}

void Memory::leave_memory(ValueId id) {
  const Values::Value& leaving = values_.value(id);
  if (leaving.bytes > 0) pool_at(leaving.address).give(block_at(leaving.address));
  values_.set_evicted(id);
}

void Memory::compact(const Move& move) {
  for (Pool::Index i = pool_.first(); i != Pool::kNone; i = pool_.block(i).after) {
    const Pool::Block block = pool_.block(i);
    if (block.is_free || block.owner == kNobody || block.before == Pool::kNone || !pool_.block(block.before).is_free) {
      continue;
    }
    const std::int64_t to = pool_.block(block.before).address;
    if (!move(block.owner, small_.bytes() + block.address, small_.bytes() + to, block.bytes)) continue;
    pool_.give(i);  // to the free block before it
    i = pool_.take_left(block.before, block.bytes, block.owner);
    values_.set_resident(block.owner, small_.bytes() + to);
  }
}

bool Memory::can_take_over(ValueId old_version, ValueId new_version) const {
  const Values::Value& old_value = values_.value(old_version);
  const Values::Value& new_value = values_.value(new_version);
  return (rules_.in_place || !values_.is_recomputable(old_version)) && old_value.is_resident &&
         !new_value.is_resident && old_value.locks == 1 && old_value.bytes == new_value.bytes;
}

bool Memory::take_over(ValueId old_version, ValueId new_version) {
  if (!can_take_over(old_version, new_version)) return false;
  const Values::Value& old_value = values_.value(old_version);
  const Values::Value& new_value = values_.value(new_version);
  const std::int64_t address = old_value.address;
  if (old_value.bytes > 0) pool_at(address).set_owner(block_at(address), new_version);
  if (!values_.is_recomputable(old_version)) values_.set_runs_once(new_value.call);
  // First the new version, so that the old one does not join the set of evicted values that the new one leaves.
  values_.set_resident(new_version, address);
  values_.set_evicted(old_version);
  return true;
}

void Memory::unlock(ValueId id) {
  values_.unlock(id);
  after_release(id);
}

void Memory::let_go(ValueId id) {
  values_.let_go(id);
  after_release(id);
}

void Memory::pin(ValueId id) {
  values_.pin(id);
  after_release(id);
}

void Memory::ran(CallId id) {
  values_.ran(id);
  if (!values_.call(id).runs_once) return;
  const std::vector<ValueId> writes = values_.call(id).writes;
  for (const ValueId written : writes) {
    if (written != kNobody) pin(written);
  }
}

// Frees the blocks of what was forgotten, and of this value if it is idle.
void Memory::after_release(ValueId id) {
  for (; freed_ < values_.forgotten().size(); ++freed_) {
    const ValueId gone = values_.forgotten()[freed_];
    const Values::Value& value = values_.value(gone);
    if (!value.is_resident) continue;
    released_.push_back(gone);
    leave_memory(gone);
  }
  if (values_.is_known(id) && values_.is_idle(id)) {
    released_.push_back(id);
    leave_memory(id);
  }
}

std::span<const ValueId> Memory::take_released() {
  handed_out_.clear();
  std::swap(handed_out_, released_);
  return handed_out_;
}

std::span<const ValueId> Memory::take_forgotten() {
  freed_ = 0;
  return values_.take_forgotten();
}

}  // namespace edgemem::remat
