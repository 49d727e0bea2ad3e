// Shared objects problems that a test owns.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/shared_objects/object_records.h"

using Values = std::vector<std::int64_t>;
using Sides = std::array<std::int64_t, 3>;  // an extent; sides beyond the rank are 1

inline std::int64_t volume(const Sides& s) { return s[0] * s[1] * s[2]; }

inline Sides cover(const Sides& a, const Sides& b) {
  return {std::max(a[0], b[0]), std::max(a[1], b[1]), std::max(a[2], b[2])};
}

struct ObjectInstance {
  Values first;
  Values last;
  Values extent;  // [n * rank]
  std::size_t rank = 1;

  std::size_t count() const { return first.size(); }
  edgemem::ObjectRecords records() const { return {first, last, extent, rank}; }
  Sides sides(std::size_t i) const {
    Sides sides{1, 1, 1};
    for (std::size_t d = 0; d < rank; ++d) sides[d] = extent[i * rank + d];
    return sides;
  }
  std::int64_t content(std::size_t i) const { return volume(sides(i)); }
  bool conflict(std::size_t a, std::size_t b) const { return first[a] <= last[b] && first[b] <= last[a]; }
};
