// A search for runs within a budget of memory that cost little.
//
// Runs are repaired (repair.h) until they are within the budget. Then large-neighbourhood search (Shaw 1998): some runs
// are taken away and repaired anew, with random prices, or runs move to other places. What is new is kept if it is not
// worse: fewer bytes above the budget first, then less cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/stop.h"
#include "planner/recompute/progress.h"
#include "planner/recompute/runs.h"
#include "planner/schedule/solved.h"

namespace edgemem::recompute {

struct Found {
  std::vector<Id> runs;
  std::int64_t peak = 0;
  std::int64_t cost = 0;
  Stop stopped = Stop::kWork;  // kBound: at the least cost; kProof: repair ended, and nothing more was asked for
  std::int64_t work = 0;
};

// The best runs within the budget that were found from the given ones; if there are none, those with the lowest peak.
// `costs` and `repeatable`: of each operator. `limits.work`: runs that are counted.
// Throws std::invalid_argument for runs that are none, and for lists of other lengths.
Found search(const Program& program, const std::vector<std::int64_t>& costs, const std::vector<char>& repeatable,
             std::span<const std::int64_t> runs, const Wanted& wanted, const schedule::Limits& limits);

}  // namespace edgemem::recompute
