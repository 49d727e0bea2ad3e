// A plan as the search sees it: which object each piece is in, and how large the objects are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/objects/pieces.h"

namespace edgemem::objects {

struct Plan {
  std::vector<std::int32_t> object;  // per piece
  std::vector<Box> boxes;            // per object
  std::int64_t total = 0;
};

// The objects are as large as their pieces need and numbered in the order of their first pieces.
Plan plan_of(const Pieces& pieces, std::span<const std::int32_t> places);

enum class First { kAll, kBySize, kInTime };

// The smallest of the plans of simple rules (section 4 of the paper); or of greedy by size alone, in O(n k) for k
// objects; or, in O(n log n), that in which each record takes the object that became free last, whatever its size.
Plan first_plan(const ObjectRecords& records, const Pieces& pieces, First rules);

// The plan as objects of all records, numbered in the order of their first records. Those without content go where
// they cost nothing.
std::vector<std::int64_t> assignment_of(const ObjectRecords& records, const Pieces& pieces, const Plan& plan);

}  // namespace edgemem::objects
