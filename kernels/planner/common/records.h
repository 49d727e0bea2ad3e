// Usage records as columns, checked once where they enter a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgemem {

using Column = std::span<const std::int64_t>;

// Records as the paper has them: `first` and `last` are inclusive operator indices, `size` is bytes. Every offset that
// a kernel returns is a multiple of `alignment`; a record of size 0 takes no space, conflicts with nothing and gets 0.
//
// A pinned record has a fixed offset. A reserved range is one that no record may use at any time.
struct Records {
  Column first;
  Column last;
  Column size;
  std::int64_t alignment = 1;
  Column pinned{};    // offsets, -1 for a record that is free; empty if all are
  Column reserved{};  // begin and end of each range, alternating; ascending, disjoint

  std::size_t count() const { return first.size(); }
  bool constrained() const { return !pinned.empty() || !reserved.empty(); }
  bool is_pinned(std::size_t i) const { return !pinned.empty() && pinned[i] >= 0 && size[i] > 0; }
  // The bytes that record i takes from its offset on: its size, rounded up to the alignment.
  std::int64_t padded(std::size_t i) const { return (size[i] + (alignment - 1)) & -alignment; }
};

// Throws std::invalid_argument for columns of different lengths, negative values, an interval that ends before it
// begins, an alignment that is no power of two, and padded sizes that add up to more than int64 holds; for offsets of
// pinned records and ends of reserved ranges that are no multiples of the alignment, and for pinned records on each
// other (if alive together) or in a reserved range.
void check(const Records& records);

// Throws std::invalid_argument unless `order` holds each record once.
void check_permutation(Column order, std::size_t count);

}  // namespace edgemem
