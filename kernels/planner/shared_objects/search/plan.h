// A plan as the search sees it: which object each item is in, and how large the objects are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/shared_objects/search/items.h"

namespace edgemem::object_search {

struct Plan {
  std::vector<std::int32_t> object;  // per item
  std::vector<Box> boxes;            // per object
  std::int64_t total = 0;
};

// The objects are as large as their items need and numbered in the order of their first items.
Plan plan_of(const Items& items, std::span<const std::int32_t> places);

enum class First { kAll, kBySize, kReuse };

// A plan without a search. kAll: the smallest that the rules of section 4 of the paper make. kBySize: that of greedy by
// size alone, in O(n k) for k objects. kReuse: each record takes the object that was freed last, whatever its size, in
// O(n log n).
Plan first_plan(const ObjectRecords& records, const Items& items, First rules);

// The objects [n] of all records, numbered in the order of their first records. Records without content go where they
// cost nothing.
std::vector<std::int64_t> assignment_of(const ObjectRecords& records, const Items& items, const Plan& plan);

}  // namespace edgemem::object_search
