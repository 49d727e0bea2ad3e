// Blocks, and the ordered lists of those that are free.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>

namespace edgemem::caching {

struct Block;
struct Pool;

// By stream, then by size, then by address.
struct BySize {
  bool operator()(const Block* a, const Block* b) const;
};
// By stream, then by address.
struct ByAddress {
  bool operator()(const Block* a, const Block* b) const;
};
using FreeBlocks = std::set<Block*, BySize>;
using UnmappedBlocks = std::set<Block*, ByAddress>;

// The smaller and the larger requests have pools of their own.
struct Pool {
  bool is_small = false;
  FreeBlocks free{};
  UnmappedBlocks unmapped{};  // rests of expandable segments that have no memory
};

struct Block {
  std::uintptr_t segment = 0;  // where its segment begins
  std::uintptr_t address = 0;
  std::int64_t size = 0;
  std::uint64_t stream = 0;
  std::int64_t requested = 0;
  Pool* pool = nullptr;
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  bool is_used = false;
  bool is_mapped = true;
  bool is_expandable = false;  // lies in an expandable segment
  // The block's entry while it is in no list, so that a block can be freed without any memory for the list.
  FreeBlocks::node_type entry{};
};

inline bool BySize::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
}
inline bool ByAddress::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
}

// All blocks by address.
using Blocks = std::unordered_map<std::uintptr_t, Block>;

// A block in no list, without neighbours, of `like`'s segment, stream and pool. Throws std::bad_alloc, and nothing has
// changed then.
Block& make_block(Blocks& blocks, std::uintptr_t address, std::int64_t size, const Block& like);
// Cuts a listed block after `size` bytes. The first part is in no list then; the second one is, and is returned. Throws
// as make_block does.
Block& cut(Blocks& blocks, Block& block, std::int64_t size);
// Into the list of free blocks, or of those without memory.
void list(Block& block) noexcept;
void unlist(Block& block) noexcept;
// Merges a block that is in no list with its free neighbours, and lists the result.
Block& merge_and_list(Blocks& blocks, Block& block) noexcept;

}  // namespace edgemem::caching
