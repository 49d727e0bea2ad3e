// What a set of plans claims about its records, computed anew.
#pragma once

#include "proof/records.h"

namespace edgemem::proof {

// What no arena can go below. At each operator, of the records alive there:
// - those count that have a size and lie inside no other that is alive;
// - the free ones among them need their padded sizes; those of a nest without a pin (nests.h) need the bytes that they
//   cover together at their distances. Less the most bytes that inputs and results in an overlap (which count, and are
//   not both pinned, nor of one such nest) can have in common (common_bytes.h);
// - so many bytes, outside the pinned ones that count and the reserved ranges, end at some address at the lowest; where
//   that is above the pinned ones, a free record is on top, whose padding need not be in the arena.
// And the end of every pinned record.
// O((n + r) log n) for n records and r rows of relations, if a record that lies inside another is alive together with
// it, which records of a `Problem` are. Throws as `check` does, and for sizes, pins and ranges that together are beyond
// int64.
Value offsets_bound(const Records& records);

// The sum of the positional maxima: the greatest k-th largest size at any operator, for every k. O(n log n).
Value objects_bound(const Records& records);

// The records end to end, each at the next aligned offset.
Value naive_size(const Records& records);

}  // namespace edgemem::proof
