// Operator breadths (Pisarchyk & Lee 2020, section 3) and the lower bound of an arena that follows from them.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/records.h"

namespace edgemem {

// No arena is smaller, in bytes: the largest sum of padded sizes alive at one operator, less the largest single padding
// there (the record on top need not be padded). O(n log n). With pinned records or reserved ranges: pinned_lower_bound.
// Throws std::invalid_argument for what `check` refuses.
std::int64_t offset_lower_bound(const Records& records);

// Sections: maximal runs of operators with the same records alive, from operator 0 to the last one used.
struct Sections {
  std::vector<std::int64_t> starts;    // first operator of each, ascending
  std::vector<std::int64_t> breadths;  // sum of the (unpadded) sizes alive there
};
// Pinned records and reserved ranges make no difference. Throws std::invalid_argument for what `check` refuses.
Sections section_breadths(const Records& records);

// min(values[low[i]], ..., values[high[i]]) for each i, both ends inclusive. Throws std::invalid_argument for a range
// that is empty or not within `values`.
std::vector<std::int64_t> range_minimum(Column values, Column low, Column high);

}  // namespace edgemem
