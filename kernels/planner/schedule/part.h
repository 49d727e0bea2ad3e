// Some operators of a problem as a problem of their own.
//
//     what has run | operators of the part, in any order | the rest
//                  `-- alive here: what the part reads, and one class for all else
#pragma once

#include <vector>

#include "planner/schedule/problem.h"
#include "planner/schedule/run.h"

namespace edgemem::schedule {

// The operators `ops` run next after those that `run` has run; they wait for no others. Operator k of the part is
// ops[k]. Its steps and peaks are those of the whole problem while the part runs. What operators outside read later
// stays alive.
Problem part_of(const Problem& problem, Ids ops, const Run& run);

}  // namespace edgemem::schedule
