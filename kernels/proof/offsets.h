// Whether offsets are right.
#pragma once

#include <vector>

#include "proof/faults.h"
#include "proof/records.h"

namespace edgemem::proof {

// Where a plan puts the records. Offsets may be any numbers; records in different regions share no bytes.
struct Placement {
  Column offsets;
  Column arena;              // bytes of each region
  Column region{};           // of each record; empty if all are in region 0
  Column reserved_region{};  // of each reserved range; empty if all are in region 0
};

// What is wrong with the offsets, in this order, each once a record, region or row of a relation:
// - negative offset, misaligned, outside the arena: record; no such region: record, its region as number 0
// - arena too large: region, with the end of its highest record as number 0
// - not where pinned: record; in a reserved range: record, the range as number 0
// - not within: both records, delta as number 0
// - overlap: both records, the later one last, and the operator at which it begins
// O((n + r) log n) for n records and r rows. Throws as `check` does, and for columns of different lengths, and reserved
// ranges that are not ascending and disjoint in each region.
std::vector<Value> find_offset_faults(const Records& records, const Placement& placement);

// The last part: pairs that are alive together in bytes they share, without a relation that allows it. A record that is
// found guilty is left out of what follows. `broken` says which rows of `within` do not hold: they allow nothing.
// `placed` is false for a record in no region.
void find_overlaps(const Records& records, const Placement& placement, const std::vector<bool>& broken,
                   const std::vector<bool>& placed, Faults& faults);

// The last byte of a record with a size, or int64's largest if it is beyond: two records that both reach it share it.
inline Value last_byte(Value offset, Value size) {
  return offset > kLargest - (size - 1) ? kLargest : offset + (size - 1);
}

// Whether offset - other >= distance, without overflow.
inline bool apart(Value offset, Value other, Value distance) {
  const auto minus = [](Value a, Value b) { return static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b); };
  if (offset >= other) return distance <= 0 || minus(offset, other) >= static_cast<std::uint64_t>(distance);
  return distance < 0 && minus(other, offset) <= minus(0, distance);
}

}  // namespace edgemem::proof
