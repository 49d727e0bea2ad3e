// A problem whose figures depend on nothing but the set of operators that have run, and are never above the true ones.
#pragma once

#include <cstdint>

#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// The order counts in one case only: whether a result took the memory of an input, where its class is one of
// `Problem::lingers` or `guarded`. Here it did whenever it could in some order.
Problem relaxed(const Problem& problem);

// What every order needs at the start, at the end, and at any one operator, whatever ran before it.
std::int64_t least_peak(const Problem& relaxed);

}  // namespace edgemem::schedule
