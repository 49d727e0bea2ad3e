// What is given back to the source, and when.
#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <vector>

#include "caching/allocator_state.h"

namespace edgemem::caching {

namespace {

bool is_free_segment(const Block& block) {
  return block.before == nullptr && block.after == nullptr && !block.is_expandable;
}

// In searches of the pool since the block became free.
std::int64_t age(const Block& block) { return block.pool->searches - block.searches_before; }

}  // namespace

void AllocatorState::release_segment(Block& block) noexcept {
  source.give(block.address, block.size);
  stats.reserved -= block.size;
  --stats.segments;
  unlist(block);
  blocks.erase(block.address);
}

void AllocatorState::collect_garbage() {
  const double share = settings.garbage_collection_threshold * static_cast<double>(settings.memory_limit);
  const std::int64_t wanted = stats.reserved - static_cast<std::int64_t>(share);
  std::int64_t total_age = 0;
  std::int64_t count = 0;
  for (const Block* block : large.free) {
    if (!is_free_segment(*block)) continue;
    total_age += age(*block);
    ++count;
  }
  std::int64_t released = 0;
  for (bool has_released = true; has_released && released < wanted && count > 0;) {
    const double threshold = static_cast<double>(total_age) / static_cast<double>(count);
    has_released = false;
    for (auto at = large.free.begin(); at != large.free.end();) {
      Block& block = **at++;
      if (!is_free_segment(block) || static_cast<double>(age(block)) < threshold) continue;
      has_released = true;
      released += block.size;
      total_age -= age(block);
      --count;
      release_segment(block);
    }
  }
}

bool AllocatorState::release_oversize(Pool& pool, std::int64_t size, std::uint64_t stream) {
  if (settings.max_split_size == CachingSettings::kNoLimit || settings.expandable_segments) return false;
  Block wanted{};
  wanted.stream = stream;
  wanted.size = std::max(size, settings.max_split_size);
  const auto found = pool.free.lower_bound(&wanted);
  if (found != pool.free.end() && (*found)->stream == stream) {
    release_segment(**found);
    return true;
  }
  // None is large enough alone: several, the largest first.
  std::int64_t released = 0;
  auto next = found;
  while (released < wanted.size && next != pool.free.begin()) {
    const auto largest = std::prev(next);
    Block& block = **largest;
    if (block.stream != stream || block.size < settings.max_split_size) break;
    released += block.size;
    release_segment(block);
    next = pool.free.lower_bound(&wanted);
  }
  return released >= wanted.size;
}

std::int64_t AllocatorState::release_cached() noexcept {
  const std::int64_t before = stats.reserved;
  for (Pool* pool : {&large, &small}) {
    std::vector<Block*> expandable;
    for (auto at = pool->free.begin(); at != pool->free.end();) {
      Block& block = **at++;
      if (is_free_segment(block)) release_segment(block);
    }
    try {
      for (Block* block : pool->free) {
        if (block->is_expandable) expandable.push_back(block);
      }
      for (Block* block : expandable) unmap(*block);
    } catch (const std::bad_alloc&) {  // no room for the entry of a block: what is left stays as it is
    }
  }
  return before - stats.reserved;
}

}  // namespace edgemem::caching
