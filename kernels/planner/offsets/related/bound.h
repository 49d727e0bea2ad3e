// What no arena of related records can go below.
//
//     operator t     | records that only live on or die   | result j       |
//     bytes          [ rest                      ) [ input )
//                                             [ j              )       at best: in the bytes of inputs that die here,
//                                             <-> distance             but not below the distance
//
// At an operator, those count that are alive and lie within no other that is. Those of one nest cover what cover.h says
// together. Of two nests any two records are disjoint, but for an input and a result, and no byte is in three nests. So
// together they cover the sum of what the nests do less what results have in common with inputs, which shares.h limits;
// where one of two is pinned that is no less true of what the free ones cover besides the pinned ones.
#pragma once

#include "planner/common/records.h"
#include "planner/offsets/related/relations.h"

namespace edgemem::related {

// Bytes: at each operator the lowest address below which the free records find room beside the pinned ones and the
// reserved ranges, less the largest padding if that is above all pinned ones; and the end of every pinned record.
// O((n + r) log n) for n records without pins and r rows. The records are checked.
Value lower_bound(const Records& records, const Relations& relations);

}  // namespace edgemem::related
