// Whether shared objects are right.
#pragma once

#include <cstddef>
#include <vector>

#include "proof/faults.h"
#include "proof/records.h"

namespace edgemem::proof {

// Records whose sizes are `rank` numbers each (bytes, or the sides of a texture), row by row.
struct Extents {
  Column first;
  Column last;
  Column extent;
  std::size_t rank;
};

// What a plan shares: the object of each record, and each object's extent in `rank` numbers. An object of fewer
// dimensions has kAbsent for the rest.
struct Sharing {
  static constexpr Value kAbsent = -2;

  Column assignment;
  Column object;
  std::size_t rank;
};

// What is wrong with the objects: first the records in an object that does not exist (record, the object as number 0);
// then object by object
// - empty: object
// - too small, or else too large: object, with the extent its records need as numbers
// - shared: two records in use together, the operator at which the second begins, and the object as number 0
// O(n log n). Throws std::invalid_argument for columns of different lengths, and records as `check` does.
std::vector<Value> find_object_faults(const Extents& records, const Sharing& sharing);

}  // namespace edgemem::proof
