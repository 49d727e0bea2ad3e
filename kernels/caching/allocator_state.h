// What a caching allocator knows, and the steps by which it serves a request.
//
//   request ─► find_free ─► use
//                │ none
//                ▼
//              grow ─► release_cached ─► grow ─► failure
#pragma once

#include <cstdint>

#include "caching/block_lists.h"
#include "caching/block_sizes.h"
#include "caching/caching_allocator.h"

namespace edgemem::caching {

struct AllocatorState {
  SegmentSource& source;
  CachingSettings settings;
  CachingStats stats{};
  Blocks blocks{};
  Pool small{.is_small = true};
  Pool large{};

  // Throws std::invalid_argument.
  AllocatorState(SegmentSource& from, CachingSettings given);

  // --- caching_allocator.cpp. All throw std::bad_alloc, and every block is in its place then. ---

  // The free block that serves a request; null if there is none.
  Block* find_free(Pool& pool, std::int64_t size, std::uint64_t stream) const;
  // A new free block of at least `size` bytes; null if there is no memory.
  Block* grow(Pool& pool, std::int64_t size, std::uint64_t stream);
  // Hands a free block out, less what is worth splitting off.
  void use(Block& block, std::int64_t size, std::int64_t requested);

  // Gives all segments back that are free as a whole; how many bytes. Expandable ones keep their memory.
  std::int64_t release_cached() noexcept;
  void count_taken(std::int64_t bytes);

  // --- expandable.cpp ---

  // As `grow`, for the stream and pool of `like`: memory is put under the lowest addresses that have room for it.
  Block* expand(Block& like, std::int64_t size);
};

}  // namespace edgemem::caching
