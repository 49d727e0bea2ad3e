// The offset calculation problem (Pisarchyk & Lee 2020, section 5): placement rules, the bound, operator breadths.
//
// The rules here say where one record goes; in which order they come is the caller's. All functions take checked
// columns (records.h) and throw std::invalid_argument for what `check` refuses. Pinned records and reserved ranges are
// honoured by place_in_smallest_gap and offset_lower_bound, and ignored by the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/records.h"

namespace edgemem {

// Up to this many records a plain scan over all placed ones is faster than the time index.
inline constexpr std::size_t kScanLimit = 512;

// Algorithm 3, lines 7-23: the records in `order`, each in the smallest gap that holds it between the placed ones it
// conflicts with (the lowest of equal gaps), else above them all. Returns offsets [n].
// `scan_limit` chooses between two implementations with equal results, O(n^2) and O(n log n (log n + g)) for g gaps.
std::vector<std::int64_t> place_in_smallest_gap(const Records& records, Column order,
                                                std::size_t scan_limit = kScanLimit);

// Best fit with offset lines (Sekiyama et al. 2018, section 3.2): into the lowest line (leftmost of equals) goes the
// first record of `preference` that fits between its ends; where none does, the line is lifted. Returns offsets [n].
std::vector<std::int64_t> place_on_offset_lines(const Records& records, Column preference);

// What no arena can go below: the largest sum of padded sizes alive at one operator, less the largest single padding
// there (the record on top need not be padded). O(n log n). With pinned records or reserved ranges: pinned_lower_bound.
std::int64_t offset_lower_bound(const Records& records);

// Sections: maximal runs of operators with the same records alive, from operator 0 to the last one used.
struct Sections {
  std::vector<std::int64_t> starts;    // first operator of each, ascending
  std::vector<std::int64_t> breadths;  // sum of the (unpadded) sizes alive there
};
Sections section_breadths(const Records& records);

// min(values[low[i]], ..., values[high[i]]) for each i, both ends inclusive.
std::vector<std::int64_t> range_minimum(Column values, Column low, Column high);

}  // namespace edgemem
