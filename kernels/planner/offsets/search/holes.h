// Where a placement may leave holes, guessed from how the load changes.
//
// The slack of a section is what the ceiling leaves above its load. Below a ceiling that can be reached, the slack
// rises by a hole's height where the hole begins, and falls by it where the hole ends. So changes of the slack that
// cancel out make a group: two of them are one hole, three are two holes that begin, end or meet at one boundary, and
// so on. The changes that no small group explains are one more group. A search that wastes room only in this way has
// few choices left.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

struct Holes {
  Ceiling ceiling;                      // below which they are
  std::vector<std::int32_t> index_of;   // [sections + 1] a boundary's number in the columns below, or -1
  std::vector<std::int32_t> boundary;   // group after group, ascending within each
  std::vector<std::int32_t> group_end;  // the index behind its group's last
  std::int32_t unexplained = 0;         // boundaries in no small group
  std::vector<std::int64_t> room;       // units: the group's slack from this boundary to its next; 0 for the last
};

// The units by which the ceiling must rise so that every section has the slack that the smallest groups need.
std::int64_t missing_room(const Part& part, Ceiling ceiling);

// For a part of split_finely. Nothing where the slack changes too often for groups to be told apart.
std::optional<Holes> find_holes(const Part& part, Ceiling ceiling, Budget& budget);

}  // namespace edgemem::offset_search
