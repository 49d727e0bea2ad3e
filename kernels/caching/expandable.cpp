// Expandable segments: addresses for more than the whole memory, under which memory is put page by page. An empty
// segment keeps its addresses.
//
//   [ used | free | used | free, mapped | unmapped .............. ]
//                               └─ pages ┘
#include <algorithm>

#include "caching/allocator_state.h"

namespace edgemem::caching {

namespace {

constexpr std::int64_t kMostAddresses = (std::int64_t{1} << 40) / 8 * 9;  // of a segment

std::int64_t page_size(const AllocatorState& state, const Pool& pool) {
  return pool.is_small ? kSmallSegment : state.settings.large_segment_size;
}

// The first of free and unmapped blocks that follow each other and have `size` bytes together, the lowest address
// first; null if there are none. One of them at least is unmapped.
Block* find_addresses(const Block& like, std::int64_t size) {
  Block lowest{};
  lowest.stream = like.stream;
  const auto& unmapped = like.pool->unmapped;
  for (auto at = unmapped.lower_bound(&lowest); at != unmapped.end() && (*at)->stream == like.stream; ++at) {
    Block* first = *at;
    if (first->before != nullptr && !first->before->is_used) first = first->before;
    std::int64_t bytes = 0;
    for (const Block* b = first; b != nullptr && !b->is_used && bytes < size; b = b->after) bytes += b->size;
    if (bytes >= size) return first;
  }
  return nullptr;
}

Block* reserve(AllocatorState& state, Block& like, std::int64_t size) {
  const std::int64_t bytes = round_up(kMostAddresses, page_size(state, *like.pool));
  if (bytes < size) return nullptr;
  like.segment = state.source.reserve(bytes);
  if (like.segment == 0) return nullptr;
  like.is_mapped = false;
  like.is_expandable = true;
  Block& block = make_block(state.blocks, like.segment, bytes, like);
  list(block);
  return &block;
}

// Puts memory under the first `size` bytes of an unmapped block, in whole pages; the free block that has them.
Block* map(AllocatorState& state, Block& block, std::int64_t size) {
  const std::int64_t bytes = round_up(size, page_size(state, *block.pool));
  if (bytes < block.size) {
    cut(state.blocks, block, bytes);
  } else {
    unlist(block);
  }
  block.is_mapped = true;
  state.count_taken(bytes);
  return &merge_and_list(state.blocks, block);
}

}  // namespace

Block* AllocatorState::expand(Block& like, std::int64_t size) {
  Block* block = find_addresses(like, size);
  if (block == nullptr) block = reserve(*this, like, size);
  if (block != nullptr && !block->is_mapped) block = map(*this, *block, std::min(block->size, size));
  while (block != nullptr && block->size < size) {
    block = map(*this, *block->after, std::min(block->after->size, size - block->size));
  }
  return block;
}

}  // namespace edgemem::caching
