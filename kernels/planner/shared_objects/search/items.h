// The items of a shared objects problem: the boxes of records that take space, and the sections during which they live.
//
// As for offsets, only those operators are sections whose set of live records is contained in no neighbour's. Sizes in
// bytes are boxes with one side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/shared_objects/object_records.h"

namespace edgemem::object_search {

using Box = Extent<3>;  // sides beyond the rank are 1

inline bool holds(const Box& box, const Box& item) {
  return box[0] >= item[0] && box[1] >= item[1] && box[2] >= item[2];
}

// An item is a record with a content. Items are sorted by begin, then the largest first; equal ones stand together.
struct Items {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> end;    // sections, half-open
  std::vector<std::int32_t> type;   // which of `box`
  std::vector<std::size_t> record;  // whose item it is
  std::vector<Box> box;             // the distinct extents, ascending in content
  std::int32_t sections = 0;
  bool is_nested = true;  // whether every box holds all that have no more content, as with bytes

  std::int32_t count() const { return static_cast<std::int32_t>(begin.size()); }
  const Box& box_of(std::int32_t item) const {
    return box[static_cast<std::size_t>(type[static_cast<std::size_t>(item)])];
  }
};

// The items of checked records.
Items items_of(const ObjectRecords& records);

}  // namespace edgemem::object_search
