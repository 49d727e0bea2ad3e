// On which side of the pins each free piece lies, where the sizes alone decide it.
//
//   ceiling - - - - - - -
//              3 |  C  |      One section, with a slack of 0. The room below the pin is 5 units high, and only A and B
//                |=====| pin  add up to that: they lie below the pin, and C lies above it. What lies below a pin in
//              4 |  A  |      one section does so in all of them, which decides other sections.
//              1 |  B  |
//                +-----+
//
// Without this the search learns only at the pin that it made a wrong choice far below.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/pins_by_section.h"

namespace edgemem::offset_search {

// The lowest and the highest offset that a piece may have, in units.
struct OffsetRange {
  std::int64_t lowest;
  std::int64_t highest;

  bool holds(std::int64_t offset) const { return lowest <= offset && offset <= highest; }
};

// The range of each piece in placements below the ceiling, as far as pins decide it; `room`: units that each section
// may waste there. Nothing if there is no such placement. Less narrow when the work of the budget ends; throws
// OutOfTime when time is up.
std::optional<std::vector<OffsetRange>> offset_ranges(const Part& part, const PinsBySection& pins,
                                                      const Ceiling& ceiling, std::span<const std::int64_t> room,
                                                      Budget& budget);

}  // namespace edgemem::offset_search
