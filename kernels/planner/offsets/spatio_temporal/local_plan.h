// Groups of records that begin in one phase and end in one phase (HomoPhase groups; Huang et al. 2026, STWeaver, 5.1),
// planned for themselves.
//
//   bytes
//     ^    +--------------------------+  size
//     |    |       c  +------+ . . . .|
//     |    |    +-----+------+--+ . . |     dots: bubbles; the more of the box is records, the greater its share
//     |    |  b |               | . . |     (the paper's time-memory product)
//     |    +----+---------------+-----+
//     |    |  a                       |
//     +----+--------------------------+--->  operators
//        first                      last
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"

namespace edgemem::spatio_temporal {

// Which of the paper's rules are followed to the letter, and which are replaced by better ones.
enum class Rules { kImproved, kPaper };

// Records at addresses relative to one another.
struct LocalPlan {
  std::int64_t first_phase = 0;
  std::int64_t last_phase = 0;
  std::vector<std::size_t> records;
  std::vector<std::int64_t> offsets;  // bytes, one a record
  std::int64_t size = 0;              // bytes, padded
  std::int64_t first = 0;             // operators, inclusive
  std::int64_t last = 0;
  double used = 0;  // bytes times operators of the records

  // Bytes times operators of the box around the records.
  double box() const { return static_cast<double>(size) * static_cast<double>(last - first + 1); }
  // Equation 1: which share of the box the records use.
  double product() const { return used / box(); }
};

// What equation 1 needs besides the offsets.
void measure(const Records& records, LocalPlan& plan);

// One plan for each pair of phases; by first operator, of equals the one with the lowest record first. Records without
// phases, without size and pinned ones are in none. `phases`: first and last phase of each record by turns.
//
// kPaper: the records lie end to end, the one that ends last at the bottom (of equals the one that begins first).
// kImproved: records that are never in use together share bytes.
std::vector<LocalPlan> plan_phase_groups(const Records& records, Column phases, Rules rules, Poll& poll);

// `fixed` with the records of `added`, best fit in order of their beginning. The phases are those of `fixed`.
LocalPlan insert_best_fit(const Records& records, const LocalPlan& fixed, const LocalPlan& added);

}  // namespace edgemem::spatio_temporal
