// Placement by size, in which sizes that are nearly equal count as equal.
//
//   bytes                                      lowered
//     ^  +-----+ . . . . .  +-----+ . .          +-----+            +-----+
//     |  |  A  | +-------+  |  C  |  room        |  A  | +-------+  |  C  |
//     |  |     | |   B   |  |     |              |     | |   B   |  |     |
//     |  +-----+ +-------+  +-----+              +-----+ +-------+  +-----+
//     +---------------------------------->  operators
//
// A, B and C, and the requests above them, are first placed as if each had the size of the largest one: each of them
// fits where another one has been. The room above the smaller ones is taken out in the end.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"

namespace edgemem::spatio_temporal {

// Which of two records that are equal otherwise comes first: the one that begins first, that ends last, that lives
// longest, or that is in use when most bytes are. Then the one that begins first.
enum class Tie { kFirst, kLast, kLifetime, kLoad };

// Sizes count as equal in the order if they are of the same so many octaves, counted from the largest one down.
inline constexpr int kExact = 0;
inline constexpr int kAnySize = 64;

// An order in which records are placed: by load, then by size, then as `tie` says.
struct Order {
  Tie tie = Tie::kFirst;
  std::int64_t share = 0;  // of near_sizes
  int octaves = kExact;
  std::int64_t levels = 0;  // of the load at which a record is in use; 0: it does not count
};

// Each size raised to the largest one that counts as equal to it: from the largest size down, all that are smaller by
// at most one part in `share` of it. With share 0 all sizes stay. `sizes` are padded, and so is the result.
std::vector<std::int64_t> near_sizes(const std::vector<std::int64_t>& sizes, std::int64_t share);

// Offsets [n]: each record in the smallest gap of addresses that holds its raised size, the lowest of equals, between
// those placed before; then all lowered (lower.h). Throws as place_in_smallest_gap.
std::vector<std::int64_t> place_by(const Order& order, const Records& records, Poll poll);

}  // namespace edgemem::spatio_temporal
