// A plan for which there is always time: slots that are handed on.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

// Offsets in units, by one sweep over time in linear time: a piece takes the slot of about its size that was given back
// last, or a new one behind all others. Throws OutOfTime when time is up.
std::vector<std::int64_t> hand_on(const Part& part, Budget& budget);

}  // namespace edgemem::offset_search
