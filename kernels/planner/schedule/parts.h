// Divides and conquers: parts that run one after the other are ordered alone, parts side by side are merged.
#pragma once

#include "planner/schedule/problem.h"
#include "planner/schedule/solved.h"

namespace edgemem::schedule {

// The best order found for each part of the problem (series.h), and for parts side by side the best merge of theirs
// (hills.h). The part with the highest peak is searched next, until that is proved to be the least, or the limits are
// reached. A part that is nearly all of it is not searched. Never worse than `start.order` and the greedy one. Throws
// std::invalid_argument as `peak` for an order that is none.
Solved order_parts(const Problem& problem, const Start& start, const Limits& limits);

}  // namespace edgemem::schedule
