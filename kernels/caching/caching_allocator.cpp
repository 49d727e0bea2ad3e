#include "caching/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include "caching/allocator_state.h"
#include "caching/block_lists.h"
#include "caching/block_sizes.h"

namespace edgemem {

namespace caching {

namespace {

bool is_division(std::int64_t number) {
  return number == 0 || (number > 0 && std::has_single_bit(static_cast<std::uint64_t>(number)));
}

CachingSettings checked(CachingSettings settings) {
  const auto& divisions = settings.roundup_power2_divisions;
  const bool has_all = divisions.empty() || divisions.size() == CachingSettings::kDivisionClasses;
  if (!has_all || !std::all_of(divisions.begin(), divisions.end(), is_division)) {
    throw std::invalid_argument("roundup_power2_divisions are 16 numbers, each a power of two or 0");
  }
  const std::int64_t segment = settings.large_segment_size;
  if (segment <= kOwnSegment || segment > kMostRequested || segment % kMiB != 0) {
    throw std::invalid_argument("large_segment_size is a multiple of 1 MiB above 10 MiB");
  }
  if (settings.max_split_size < segment || settings.max_non_split_rounding < segment) {
    throw std::invalid_argument("max_split_size and max_non_split_rounding are large_segment_size or more");
  }
  return settings;
}

}  // namespace

AllocatorState::AllocatorState(SegmentSource& from, CachingSettings given)
    : source(from), settings(checked(std::move(given))) {}

Block* AllocatorState::find_free(Pool& pool, std::int64_t size, std::uint64_t stream) const {
  Block wanted{};
  wanted.stream = stream;
  wanted.size = size;
  auto found = pool.free.lower_bound(&wanted);
  if (found == pool.free.end() || (*found)->stream != stream) return nullptr;
  if (settings.expandable_segments) {
    // A block that can grow counts with what it can grow to, so that those that cannot are used first.
    const auto room = [](const Block& b) {
      return b.size + (b.after != nullptr && !b.after->is_mapped ? b.after->size : 0);
    };
    for (auto next = std::next(found); next != pool.free.end() && (*next)->stream == stream; ++next) {
      if (room(**next) >= room(**found)) break;
      found = next;
    }
  }
  const std::int64_t most = settings.max_split_size;
  if (size < most && (*found)->size >= most) return nullptr;
  if (size >= most && (*found)->size - size >= settings.max_non_split_rounding) return nullptr;
  return *found;
}

Block* AllocatorState::grow(Pool& pool, std::int64_t size, std::uint64_t stream) {
  Block like{};
  like.stream = stream;
  like.pool = &pool;
  if (settings.expandable_segments) return expand(like, size);
  const std::int64_t bytes = segment_size(size, settings);
  const std::uintptr_t address = source.take(bytes);
  if (address == 0) return nullptr;
  like.segment = address;
  try {
    Block& block = make_block(blocks, address, bytes, like);
    count_taken(bytes);
    list(block);
    return &block;
  } catch (...) {
    source.give(address, bytes);
    throw;
  }
}

void AllocatorState::use(Block& block, std::int64_t size, std::int64_t requested) {
  const std::int64_t rest = block.size - size;
  const bool is_worth_splitting = block.pool->is_small || settings.expandable_segments
                                      ? rest >= kSmallestBlock
                                      : size < settings.max_split_size && rest > kLargestSmall;
  if (is_worth_splitting) {
    cut(blocks, block, size);
  } else {
    unlist(block);
  }
  block.is_used = true;
  block.requested = requested;
  stats.allocated += block.size;
  stats.requested += requested;
  stats.allocated_peak = std::max(stats.allocated_peak, stats.allocated);
}

void AllocatorState::count_taken(std::int64_t bytes) {
  ++stats.times_taken;
  stats.reserved += bytes;
  stats.reserved_peak = std::max(stats.reserved_peak, stats.reserved);
}

std::int64_t AllocatorState::release_cached() noexcept {
  std::int64_t released = 0;
  for (Pool* pool : {&large, &small}) {
    for (auto at = pool->free.begin(); at != pool->free.end();) {
      Block& block = **at++;
      if (block.before != nullptr || block.after != nullptr || block.is_expandable) continue;
      released += block.size;
      source.give(block.address, block.size);
      unlist(block);
      blocks.erase(block.address);
    }
  }
  stats.reserved -= released;
  return released;
}

}  // namespace caching

CachingAllocator::CachingAllocator(SegmentSource& source, CachingSettings settings)
    : state_(std::make_unique<caching::AllocatorState>(source, std::move(settings))) {}

CachingAllocator::~CachingAllocator() = default;

std::uintptr_t CachingAllocator::take(std::int64_t bytes, std::uint64_t stream) noexcept {
  caching::AllocatorState& state = *state_;
  try {
    if (bytes <= 0 || bytes > kMostRequested) throw std::bad_alloc();
    const std::int64_t size = block_size(bytes, state.settings);
    caching::Pool& pool = size <= kLargestSmall ? state.small : state.large;
    caching::Block* block = state.find_free(pool, size, stream);
    if (block == nullptr) block = state.grow(pool, size, stream);
    if (block == nullptr && state.release_cached() > 0) block = state.grow(pool, size, stream);
    if (block == nullptr) throw std::bad_alloc();
    state.use(*block, size, bytes);
    return block->address;
  } catch (const std::bad_alloc&) {  // of the source, or of this process
    return 0;
  }
}

bool CachingAllocator::give(std::uintptr_t address) noexcept {
  const auto found = state_->blocks.find(address);
  if (found == state_->blocks.end() || !found->second.is_used) return false;
  caching::Block& block = found->second;
  state_->stats.allocated -= block.size;
  state_->stats.requested -= block.requested;
  block.is_used = false;
  block.requested = 0;
  merge_and_list(state_->blocks, block);
  return true;
}

std::int64_t CachingAllocator::release_cached() noexcept { return state_->release_cached(); }

void CachingAllocator::set_max_split_size(std::int64_t bytes) noexcept { state_->settings.max_split_size = bytes; }

const CachingStats& CachingAllocator::stats() const noexcept { return state_->stats; }

std::vector<BlockView> CachingAllocator::blocks() const {
  std::vector<BlockView> views;
  views.reserve(state_->blocks.size());
  for (const auto& [address, block] : state_->blocks) {
    views.push_back({.segment = block.segment,
                     .address = address,
                     .size = block.size,
                     .requested = block.requested,
                     .is_used = block.is_used,
                     .is_mapped = block.is_mapped});
  }
  std::sort(views.begin(), views.end(), [](const BlockView& a, const BlockView& b) { return a.address < b.address; });
  return views;
}

}  // namespace edgemem
