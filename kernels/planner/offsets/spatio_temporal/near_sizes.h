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

// Which of requests of one size comes first: the one that begins first, that ends last, or that lives longest.
enum class Tie { kFirst, kLast, kLifetime };

inline constexpr Tie kTies[] = {Tie::kFirst, Tie::kLast, Tie::kLifetime};

// Each size raised to the largest one that counts as equal to it: from the largest size down, all that are smaller by
// at most one part in `share` of it. With share 0 all sizes stay. `sizes` are padded, and so is the result.
std::vector<std::int64_t> near_sizes(const std::vector<std::int64_t>& sizes, std::int64_t share);

// Offsets [n]: from the largest raised size down, each record in the smallest gap of addresses that holds it, the
// lowest of equals, between those placed before; then all lowered (lower.h). Throws as place_in_smallest_gap.
std::vector<std::int64_t> place_by_near_size(const Records& records, std::int64_t share, Tie tie, Poll poll);

}  // namespace edgemem::spatio_temporal
