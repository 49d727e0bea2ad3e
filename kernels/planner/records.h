// Usage records as columns, checked once where they enter a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgemem {

using Column = std::span<const std::int64_t>;

// Records as the paper has them: `first` and `last` are inclusive operator indices, `size` is bytes. Every offset that
// a kernel returns is a multiple of `alignment`; a record of size 0 takes no space, conflicts with nothing and gets 0.
struct Records {
  Column first;
  Column last;
  Column size;
  std::int64_t alignment = 1;

  std::size_t count() const { return first.size(); }
  // The bytes that record i takes from its offset on: its size, rounded up to the alignment.
  std::int64_t padded(std::size_t i) const { return (size[i] + alignment - 1) & -alignment; }
};

// Throws std::invalid_argument for columns of different lengths, negative values, an interval that ends before it
// begins, an alignment that is no power of two, and padded sizes that add up to more than int64 holds.
void check(const Records& records);

// Throws std::invalid_argument unless `order` holds each record once.
void check_permutation(Column order, std::size_t count);

}  // namespace edgemem
