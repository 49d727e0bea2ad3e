// What the shared objects kernels take: usage records whose size is bytes or texels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "planner/common/builtins.h"
#include "planner/common/records.h"

namespace edgemem {

// Usage records with bytes (rank 1) or texels (rank 2 or 3) as size; `extent` is [n * rank], row after row.
struct ObjectRecords {
  Column first;
  Column last;
  Column extent;
  std::size_t rank = 1;

  std::size_t count() const { return first.size(); }
};

// Throws std::invalid_argument for a rank that is not 1 to 3, columns of different lengths, negative values, an
// interval that ends before it begins, and sizes that add up to more than int64 holds.
void check(const ObjectRecords& records);

inline constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

template <std::size_t Rank>
using Extent = std::array<std::int64_t, Rank>;

template <std::size_t Rank>
Extent<Rank> extent_of(const ObjectRecords& records, std::size_t i) {
  Extent<Rank> extent;
  std::copy_n(records.extent.begin() + static_cast<std::ptrdiff_t>(i * Rank), Rank, extent.begin());
  return extent;
}

// Bytes or texels; kInt64Max where the product does not fit, which is more than any object may have.
template <std::size_t Rank>
std::int64_t content(const Extent<Rank>& extent) {
  std::int64_t product = extent[0];
  bool empty = extent[0] == 0;
  bool overflow = false;
  for (std::size_t d = 1; d < Rank; ++d) {
    empty = empty || extent[d] == 0;
    overflow = multiply_overflows(product, extent[d], &product) || overflow;
  }
  if (empty) return 0;
  return overflow ? kInt64Max : product;
}

template <std::size_t Rank>
Extent<Rank> cover(const Extent<Rank>& a, const Extent<Rank>& b) {
  Extent<Rank> both;
  for (std::size_t d = 0; d < Rank; ++d) both[d] = std::max(a[d], b[d]);
  return both;
}

}  // namespace edgemem
