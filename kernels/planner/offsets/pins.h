// Offsets around pinned records and reserved ranges: a lower bound of the arena, and a plan without a search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/interval_set.h"
#include "planner/common/records.h"

namespace edgemem {

// No arena for these records (checked, by index) is smaller, in bytes. At each operator the arena holds the end of
// every pinned record, and the lowest address below which the free records find room between those and the reserved
// ranges. Where that lies above the pinned records a free record is on top, which need not be padded. O(n (log n + p))
// for p pinned records alive together.
std::int64_t pinned_lower_bound(const Records& records, std::span<const std::size_t> ids);

// Offsets [n] that lie end to end around `occupied`, in the unit of the sizes. Where `fixed[i] >= 0` that is the
// offset.
std::vector<std::int64_t> end_to_end_around(Column size, Column fixed, const IntervalSet& occupied);

}  // namespace edgemem
