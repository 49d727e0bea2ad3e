// A lower bound of the peak over all orders.
//
// One operator: whatever the order, its step needs its least cut (cuts.h).
// Several: one of them runs first, and the others wait. So some step needs the least, over those of them that may be
// first, of the cut in which the others wait. The same holds for the one that runs last. Operators that need much at
// their step are such groups: in a training step the gradient of some weight comes first, when hardly any activation
// is released.
#pragma once

#include <cstdint>
#include <span>

#include "planner/common/budget.h"
#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// `order` is a known one: where it needs little at a step, the least there is no more, and need not be found. With less
// work the bound is lower. Throws std::invalid_argument as `peak` for an order that is none.
std::int64_t lower_bound(const Problem& problem, std::span<const std::int64_t> order, Budget* budget);

}  // namespace edgemem::schedule
