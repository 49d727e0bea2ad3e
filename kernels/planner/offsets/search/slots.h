// A plan that is found in linear time: slots of about the right size are used again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

// Offsets in units, by one sweep over time: of the free slots of about a piece's size it takes the one that was freed
// last, else a new one above all others. Throws OutOfTime.
std::vector<std::int64_t> reuse_slots(const Part& part, Budget& budget);

}  // namespace edgemem::offset_search
