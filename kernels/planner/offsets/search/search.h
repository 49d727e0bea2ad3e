// The offset problem solved as well as a given amount of work allows, with a proof where one is found.
//
//   arena
//     ^
//     |- - - - - - - - - - - - - - - - - - - - -   ceiling: the arena that the search tries to stay below
//     |
//   8 +===========+                                === skyline: three lines, of height 8, 3 and 6
//     |           |
//   6 |     A     |           +===========+
//     |           |           |           |
//     |           |           |     C     |
//   3 |           +===========+           |        the line of height 3 is a plateau: its left wall is 5 high, its
//     |           |     B     |           |        right wall 3
//   0 +-----+-----+-----+-----+-----+-----+---->   time
//       s0    s1    s2    s3    s4    s5           sections
//
//   left to place:      |--D--|                    D: one section, fits on the plateau at its left end
//                             |-----E-----|        E: on the line of height 6, or above
//                 |-----F-----|                    F: two sections, fits on the plateau and fills it
//
// Section: operators count only where the set of live records is contained in no neighbour's; each is a section.
// Part: sections and records that share no record with the rest. Parts are searched independently.
// Piece: a record in a part. It covers the sections [begin, end) and is `size` units high; a unit is the greatest
// common divisor of what is padded. Its tail is what it uses of its last unit. Load of a section: the sum of its
// pieces' sizes. Slack: what the ceiling leaves above the load, the most that the section can waste. Boundary: between
// two sections. A piece that covers both crosses it; where no unplaced piece does, the rest falls into regions that are
// searched one after the other. Line: a maximal run of sections of one height, ended by boundaries that nothing
// crosses, too. Wall: the step between neighbouring lines. Plateau: a line whose walls all go up (or are boundaries
// that nothing crosses). Lift: raises the end section of a plateau, which wastes its slack. Hole: the room below
// something placed that is wasted.
//
// skyline.h places greedily on the lowest line, gaps.h into the gaps around pins. plateau.h searches depth first,
// guess.h after a guess of the holes; pin_sides.h says first which pieces lie below a pin. part_search.h takes turns
// with them for one part; this file gives the turns to the part that decides the size. techniques.h names what can be
// switched off.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/common/records.h"
#include "planner/common/stop.h"
#include "planner/offsets/search/techniques.h"

namespace edgemem {

struct SearchLimits {
  std::int64_t work = 10'000'000;  // steps: places filled or lifted; of each thread
  std::uint64_t seed = 1;
  std::optional<double> seconds;  // with it the result depends on the machine
  int threads = 1;
  std::function<void()> poll;  // called in the caller's thread some twenty times a second; what it throws ends all
  Techniques techniques = {};
};

struct SearchResult {
  std::vector<std::int64_t> offsets;  // bytes
  std::int64_t size = 0;              // bytes: the arena
  std::int64_t bound = 0;             // bytes: the best lower bound proved
  Stop stopped = Stop::kBound;        // kBound: at offset_lower_bound; kProof: at a better bound
  std::int64_t work = 0;              // steps done, by the thread that found it

  bool optimal() const { return size == bound; }
};

// Always returns a valid placement, the same one for the same records, work, seed, threads and techniques if no seconds
// are given, and never a larger one for more threads. Seconds end the call within a tenth more, whatever the number of
// records; a placement that is not found by then has all records end to end (around what is pinned or reserved), and
// the bound may be the largest record's size. Pinned records are where they should be and nothing is in a reserved
// range. Throws std::invalid_argument for records that `check` refuses, threads below 1, and seconds below 0.
SearchResult search_offsets(const Records& records, const SearchLimits& limits);

}  // namespace edgemem
