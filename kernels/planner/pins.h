// Pinned records and reserved ranges: what they forbid, what they cost, and a plan that keeps clear of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/interval_set.h"
#include "planner/records.h"

namespace edgemem {

// The part of `check` that concerns them; nothing may end above `highest`.
void check_pins(const Records& records, std::int64_t highest);

// The reserved ranges as a set, in bytes.
IntervalSet reserved_set(const Records& records);

// What no arena for these records (checked, by index) can go below. At each operator: the end of every pinned record;
// and the lowest address below which the free records find room between those and the reserved ranges. Where that lies
// above the pinned ones a free record is on top, which need not be padded. O(n (log n + p)), p pinned alive together.
std::int64_t pinned_lower_bound(const Records& records, std::span<const std::size_t> ids);

// Offsets end to end around `occupied`, for sizes in the same unit; those with `fixed[i] >= 0` are there.
std::vector<std::int64_t> end_to_end_around(Column size, Column fixed, const IntervalSet& occupied);

}  // namespace edgemem
