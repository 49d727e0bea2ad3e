// Where a problem falls into parts: one after the other, and side by side.
//
//            b1 - b2                 after a comes b or c, before d both: {a} | {b1, b2, c} | {d} run one after the
//          /         \               other in every order; in the middle {b1, b2} and {c} run side by side
//     a - <            > - d
//          \    c    /
#pragma once

#include <cstddef>
#include <vector>

#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// The places in a topological order before which all operators must come before all operators behind it; with 0 and the
// number of operators, ascending. The parts between them are problems of their own: what one part does in memory
// does not depend on the order within another one.
std::vector<std::size_t> series_places(const Problem& problem, const std::vector<Id>& order);

// The operators that depend on each other, directly or through others; each set and the sets ascending.
std::vector<std::vector<Id>> components(const Problem& problem);

}  // namespace edgemem::schedule
