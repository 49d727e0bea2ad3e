// Records whose differences of offsets are fixed: a group, which is placed as one.
//
//   base of the group
//     |<- depth ->|
//     [ container                 )     a container and what lies within it are one group,
//     .           [ slice )             also where they are alive at different operators
//     [ the same tensor, next stripe )  and, with homes, groups of one role where that is legal
#pragma once

#include <vector>

#include "planner/offsets/related/conflicts.h"
#include "planner/offsets/related/relations.h"

namespace edgemem::related {

// Counted in steps of the alignment, but for `top`.
struct Groups {
  std::vector<Index> of;     // the group of each record; kNone for a record of size 0
  std::vector<Value> depth;  // of each record: its offset less the base of its group; 0 or more, 0 for some record
  std::vector<Value> pin;    // of each group: its base if it is fixed, else -1
  std::vector<Value> top;    // of each group, bytes: the end of its highest record less its base

  std::size_t count() const { return pin.size(); }
};

// One group for every record that lies within no other, with all that lies within it. Throws std::invalid_argument
// for pinned records that one base does not fit.
Groups container_groups(const Records& records, const Relations& relations);

// Joins groups, so that records of one role have one offset. A group joins the first one made of that role that it may
// share an offset with, given the pairs that must not share bytes; pinned groups join none.
Groups with_homes(const Groups& groups, const Records& records, const Relations& relations,
                  const std::vector<Pair>& pairs);

}  // namespace edgemem::related
