// The pinned pieces of a part, section by section, as the plateau search asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

class PinsBySection {
 public:
  static constexpr std::int64_t kNoPin = std::numeric_limits<std::int64_t>::max();

  PinsBySection() = default;
  // Throws OutOfTime.
  PinsBySection(const Part& part, Budget& budget);

  // The offset (units) of the section's pin number `index`, ascending by offset; kNoPin behind the last.
  std::int64_t offset(std::int32_t section, std::int64_t index) const {
    const std::size_t at = begin_[static_cast<std::size_t>(section)] + static_cast<std::size_t>(index);
    return at == begin_[static_cast<std::size_t>(section) + 1] ? kNoPin : offsets_[at];
  }

 private:
  std::vector<std::size_t> begin_;  // [sections + 1] into offsets_
  std::vector<std::int64_t> offsets_;
};

// A ceiling within a reserved range is lowered to where the range begins, since nothing can end in the range. Nothing
// when a pinned record ends above the ceiling.
std::optional<Ceiling> ceiling_around_pins(const Part& part, Ceiling ceiling);

}  // namespace edgemem::offset_search
