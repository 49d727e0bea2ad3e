// Fusion of groups, the second of which begins in the phase in which the first one ends (STWeaver, 5.1).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"
#include "planner/offsets/spatio_temporal/local_plan.h"

namespace edgemem::spatio_temporal {

// The records of `added` inserted into `fixed` as the paper has it: `address` begins at the lowest address of a record
// of `fixed`. Of the records that fit there, the one that begins first (of equals the lower one) is placed, and
// `address` moves to its end. Where none fits, it moves to the next address of a record of `fixed`, after the last one
// to the top of `fixed`, where everything fits. The phases are those of `fixed`.
LocalPlan insert(const Records& records, const LocalPlan& fixed, const LocalPlan& added);

// Each group in turn takes in, in their order, the others that begin in the phase in which it ends: the smaller of the
// two is inserted into the larger one (of equals into the first). A fusion is accepted if the time-memory product of
// both is greater than the average of the two, weighted by their boxes; the group then ends where the other one did.
//
// kImproved inserts by `insert_best_fit`. `most_work`: pairs of records to compare in all; a fusion that might need
// more than is left is not tried.
std::vector<LocalPlan> fuse(const Records& records, std::vector<LocalPlan> groups, Rules rules, std::int64_t most_work,
                            Poll& poll);

}  // namespace edgemem::spatio_temporal
