// Where a placement may leave holes, guessed from how the load changes.
//
// Below a ceiling that can be reached, where a hole begins (ends) the slack, which is what the ceiling leaves above the
// load, rises (falls) by its height. So some changes of the slack that cancel out make a group: two of them are one
// hole, three are two holes that begin, end or meet at one boundary, and so on. What no small group explains is one
// more group. A search that wastes room only in this way has few choices left.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

struct Holes {
  Ceiling ceiling;                      // below which they are
  std::vector<std::int32_t> place;      // [sections + 1] a boundary's index in the columns below, or -1
  std::vector<std::int32_t> boundary;   // group after group, ascending within each
  std::vector<std::int32_t> group_end;  // the index behind its group's last
  std::int32_t unexplained = 0;         // boundaries in no small group
  std::vector<std::int64_t> room;       // units: the group's slack from this boundary to its next; 0 for the last
};

// The units by which the ceiling should be higher: what the smallest groups need of sections where it leaves less.
std::int64_t missing_room(const Part& part, Ceiling ceiling);

// For pieces of split_finely. Nothing where the slack changes too often to say.
std::optional<Holes> find_holes(const Part& part, Ceiling ceiling, Budget& budget);

}  // namespace edgemem::offset_search
