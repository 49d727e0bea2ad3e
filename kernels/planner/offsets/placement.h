// The offset calculation problem (Pisarchyk & Lee 2020, section 5): rules that place one record after another.
//
// A rule says where one record goes; the caller says in which order the records come. All functions take checked
// columns (records.h) and throw std::invalid_argument for what `check` refuses. place_in_smallest_gap honours pinned
// records and reserved ranges, place_on_offset_lines ignores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"

namespace edgemem {

// Up to this many records a plain scan over all placed ones is faster than the time index.
inline constexpr std::size_t kScanLimit = 512;

// Algorithm 3, lines 7-23: the records in `order`, each in the smallest gap that holds it between the placed ones it
// conflicts with (the lowest of equal gaps), else above them all. Returns offsets [n].
// `scan_limit` chooses between two implementations with equal results, O(n^2) and O(n log n (log n + g)) for g gaps.
std::vector<std::int64_t> place_in_smallest_gap(const Records& records, Column order,
                                                std::size_t scan_limit = kScanLimit, Poll poll = {});

// Best fit with offset lines (Sekiyama et al. 2018, section 3.2): into the lowest line (leftmost of equals) goes the
// first record of `preference` that fits between its ends; where none does, the line is lifted. Returns offsets [n].
std::vector<std::int64_t> place_on_offset_lines(const Records& records, Column preference, Poll poll = {});

}  // namespace edgemem
