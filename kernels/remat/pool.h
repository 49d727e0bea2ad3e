// A pool of one piece, with real addresses.
//
//   address 0                                                             size
//   | used | free         | used | used | free | used                       |
//            left end ^                ^ right end
//
// The blocks are in the order of their addresses; two free blocks are never neighbours. Everything about the blocks is
// kept outside of the pool, since nobody may touch the memory of a device. No locks: the caller lets one thread in at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "remat/rules.h"

namespace edgemem::remat {

class Pool {
 public:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;

  struct Block {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
    std::int64_t owner = -1;  // for the caller, of a used block
    bool is_free = true;
    Index before = kNone;
    Index after = kNone;
  };

  // `bytes` >= 0. Throws std::invalid_argument.
  explicit Pool(std::int64_t bytes);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t used() const { return used_; }
  std::int64_t block_count() const { return count_; }

  // The block with the lowest address, kNone if the pool has no bytes; each block names the one after it.
  Index first() const { return first_; }
  const Block& block(Index index) const { return blocks_[static_cast<std::size_t>(index)]; }
  // The used block that begins at this address, or kNone.
  Index used_at(std::int64_t address) const;

  // A free block of at least `bytes` > 0, or kNone.
  Index leftmost(std::int64_t bytes) const;
  Index rightmost(std::int64_t bytes) const;
  Index best(std::int64_t bytes) const;

  // Uses `bytes` > 0 at one end of a free block that is large enough; the block that holds them.
  Index take_left(Index free, std::int64_t bytes, std::int64_t owner);
  Index take_right(Index free, std::int64_t bytes, std::int64_t owner);
  // So many more free bytes at the end, >= 0. Throws std::invalid_argument.
  void grow(std::int64_t bytes);
  // The used block is free from now, and one with its free neighbours: with the index of the one before, if that is
  // free.
  void give(Index used);
  void set_owner(Index used, std::int64_t owner) { blocks_[static_cast<std::size_t>(used)].owner = owner; }

 private:
  Block& at(Index index) { return blocks_[static_cast<std::size_t>(index)]; }
  Index insert_after(Index before);
  void remove(Index index);
  Index use(Index index, std::int64_t owner);

  std::int64_t bytes_ = 0;
  std::int64_t used_ = 0;
  std::int64_t count_ = 0;
  Index first_ = kNone;
  Index last_ = kNone;
  std::vector<Block> blocks_;
  std::vector<Index> spare_;  // places of `blocks_` that hold nothing
  std::unordered_map<std::int64_t, Index> used_at_;
  std::map<std::int64_t, Index> free_at_;  // few, beside the used ones: a search for room looks at these only
};

}  // namespace edgemem::remat
