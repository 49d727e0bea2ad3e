// Beam search over sets of operators that have run.
//
//     operators that have run    0      1        2        3
//                                {} --- {a} ---- {a,b} -- {a,b,c}      {a,b} is reached by ab and by ba. What comes
//                                  \--- {b} --/ \ {b,d} -- ...         later costs the same, so the way with the lower
//                                                                      peak goes on alone.
//
// Front by front, each with one operator more than the one before, the states with the lowest peak and then the fewest
// bytes alive go on. If none had to be left out, the search was exhaustive: Ahn et al. 2020 (SERENITY), section 3.1.
// Three techniques keep fronts small without leaving out anything better:
//
//   dominance  of the states with one key the one with the lowest peak stays.
//   floor      peaks up to `floor` are equally good. Then an operator that leaves no more alive and fits below the
//              floor (or the state's peak) runs at once: whatever comes later finds no less room. A lower bound is a
//              floor that costs nothing; a higher one asks whether there is an order below it, as SERENITY's soft
//              budgets do (section 3.2).
//   ceiling    a state whose peak is no lower than that of a known order ends. If none is left, that order is optimal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/common/budget.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/problem.h"
#include "planner/schedule/solved.h"

namespace edgemem::schedule {

// One pass over all fronts.
struct Sweep {
  std::size_t width = 1;  // states that go on in each front
  std::int64_t floor = 0;
  std::int64_t ceiling = 0;
};

struct Swept {
  std::optional<Numbers> order;  // with a peak below the ceiling
  std::int64_t peak = 0;
  bool exhaustive = false;  // no state was left out
  bool finished = false;    // the budget sufficed
};

Swept sweep(const Problem& problem, const Sweep& sweep, Budget& budget);

// Asks again and again for an order below the best one, in sweeps of growing width, until there is none, the bound is
// reached or the limits are. Never above the greedy order and that of `start`. More work never gives a worse order.
Solved beam(const Problem& problem, const Start& start, const Limits& limits);

}  // namespace edgemem::schedule
