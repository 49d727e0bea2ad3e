// Large-neighbourhood search (Shaw 1998): up to 40 operators around a peak are ordered anew, again and again.
//
//     bytes alive      _   _
//                    _| |_| |   ...
//                ___|       |__|         the best order of these, the others being as they are: small.h
//       order    a b c d e f g h i j
//                  `---------'
//
// Every second time something is moved across the peak first: an operator that runs later comes before it, with all
// that it needs, or one that ran earlier after it, with all that needs it. What is new is kept if the peak is not
// higher, and steps there and near it are no more. So orders also change where they cost the same.
#pragma once

#include "planner/schedule/problem.h"
#include "planner/schedule/solved.h"

namespace edgemem::schedule {

// Goes on from `start.order`, or the greedy one, until it reaches the bound or the limits. The peak never rises.
// Throws std::invalid_argument as `peak` for an order that is none.
Solved improve(const Problem& problem, const Start& start, const Limits& limits);

}  // namespace edgemem::schedule
