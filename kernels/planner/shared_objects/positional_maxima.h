// Positional maxima (Pisarchyk & Lee 2020, section 3): the lower bound of the shared objects problem, object by object.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/records.h"

namespace edgemem {

// The i-th is the largest i-th size over all operator profiles, each sorted in decreasing order; there are as many
// as the largest profile holds. Records of size 0 count. No profile is built: O(n log n).
std::vector<std::int64_t> positional_maxima(const Records& records);

}  // namespace edgemem
