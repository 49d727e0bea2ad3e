#include "caching/block_lists.h"

#include <utility>

namespace edgemem::caching {

Block& make_block(Blocks& blocks, std::uintptr_t address, std::int64_t size, const Block& like) {
  const auto [place, is_new] = blocks.try_emplace(address);
  Block& block = place->second;
  try {
    FreeBlocks alone;
    alone.insert(&block);
    block.entry = alone.extract(alone.begin());
  } catch (...) {
    blocks.erase(place);
    throw;
  }
  block.segment = like.segment;
  block.address = address;
  block.size = size;
  block.stream = like.stream;
  block.pool = like.pool;
  block.is_mapped = like.is_mapped;
  block.is_expandable = like.is_expandable;
  return block;
}

void list(Block& block) noexcept {
  block.entry.value() = &block;
  if (block.is_mapped) {
    block.pool->free.insert(std::move(block.entry));
  } else {
    block.pool->unmapped.insert(std::move(block.entry));
  }
}

void unlist(Block& block) noexcept {
  block.entry = block.is_mapped ? block.pool->free.extract(&block) : block.pool->unmapped.extract(&block);
}

Block& cut(Blocks& blocks, Block& block, std::int64_t size) {
  Block& rest = make_block(blocks, block.address + static_cast<std::uintptr_t>(size), block.size - size, block);
  unlist(block);
  block.size = size;
  rest.before = &block;
  rest.after = block.after;
  if (rest.after != nullptr) rest.after->before = &rest;
  block.after = &rest;
  list(rest);
  return rest;
}

namespace {

bool can_merge(const Block& block, const Block* neighbour) {
  return neighbour != nullptr && !neighbour->is_used && neighbour->is_mapped == block.is_mapped;
}

// Both are in no list.
void absorb_next(Blocks& blocks, Block& left) {
  Block& right = *left.after;
  left.size += right.size;
  left.after = right.after;
  if (right.after != nullptr) right.after->before = &left;
  blocks.erase(right.address);
}

}  // namespace

Block& merge_and_list(Blocks& blocks, Block& block) noexcept {
  Block* merged = &block;
  if (can_merge(block, block.before)) {
    merged = block.before;
    unlist(*merged);
    absorb_next(blocks, *merged);
  }
  if (can_merge(*merged, merged->after)) {
    unlist(*merged->after);
    absorb_next(blocks, *merged);
  }
  list(*merged);
  return *merged;
}

}  // namespace edgemem::caching
