// The shared objects problem (Pisarchyk & Lee 2020, section 4): which object each record lives in.
//
// An object is as large as its records: the maximum of their sizes, per dimension for texel extents. The caller
// decides the order and the stages of the records. All functions throw std::invalid_argument for what `check` refuses
// and return object indices [n], numbered in order of creation.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"
#include "planner/shared_objects/object_records.h"

namespace edgemem {

// A free object may be taken unless it would grow by more than the record's own size (bytes never do).
enum class Pick {
  kFirst,    // the one that grows least, then the oldest: for records in decreasing size the first free one
  kClosest,  // the one that grows least, then the smallest, then the oldest: Algorithm 1, lines 9-33
};

// Each record of `order` into a free object after `pick`, or into a new one. O(n k) and a search per candidate.
std::vector<std::int64_t> assign_in_order(const ObjectRecords& records, Column order, Pick pick);

// Section 4.4: stage by stage (ascending `stage`, [n]) the pair of record and free object with the fewest idle
// operators between the record and the object's nearest other one; of equal pairs the largest record, then the lowest
// index. A record without a free object opens one after all others of its stage, or before them with `new_first`.
// O(n^2).
std::vector<std::int64_t> assign_nearest(const ObjectRecords& records, Column stage, bool new_first, Poll poll = {});

// Lee et al. 2019: the cheapest set of chains of records, where a chain costs its first record and every increase from
// one record to the next. The records are taken in stable order of first_op.
std::vector<std::int64_t> assign_by_min_cost_flow(const ObjectRecords& records, Poll poll = {});

}  // namespace edgemem
