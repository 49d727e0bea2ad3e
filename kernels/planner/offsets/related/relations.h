// What is known of records besides their intervals and sizes, checked once where it enters the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/records.h"

namespace edgemem::related {

using Value = std::int64_t;
using Index = std::uint32_t;

inline constexpr Index kNone = static_cast<Index>(-1);

// Two records that are alive at one operator have disjoint bytes, but for these relations:
// - overlap (input, made, distance): the input dies in the operator that makes the other (last[input] == first[made]).
//   The two may also share bytes where offset[input] - offset[made] >= distance.
// - within (inner, outer, delta): offset[inner] == offset[outer] + delta, and the outer one holds the inner one. A
//   record lies within one other at most, which may lie within another in turn. All records that such chains lead from
//   to one record are a nest with it, and any two of a nest may share bytes. In a nest with a pinned record only two of
//   which one lies inside the other may; that no others do is up to the caller.
// Records of one role, a number of 0 or more, may be tried at one offset; no plan has to.
struct Relations {
  Column overlap{};  // input, made, distance by turns
  Column within{};   // inner, outer, delta by turns
  Column roles{};    // -1 for none; empty if no record has one
};

struct Overlap {
  Index input;
  Index made;
  Value distance;  // in steps of the alignment
};

// The rows of `overlap` between records with a size, the distances rounded up to the alignment and counted in steps
// of it, by (made, input).
std::vector<Overlap> overlaps(const Records& records, const Relations& relations);

// Throws std::invalid_argument as `edgemem::check` does, for which pinned records are checked one by one but not
// against each other; for relations between records that do not exist or of a record with itself, an overlap of
// records that do not meet in one operator, an input of the operator that makes it, a delta that is negative or no
// multiple of the alignment, a record that does not fit inside its container, and a record inside two others or inside
// itself.
void check(const Records& records, const Relations& relations);

}  // namespace edgemem::related
