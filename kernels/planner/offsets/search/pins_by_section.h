// The pinned pieces of a part, section by section, as the plateau search asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

struct Pin {
  std::int64_t begin;  // units, half-open
  std::int64_t end;
  std::int32_t piece;
};

class PinsBySection {
 public:
  static constexpr std::int64_t kNoPin = std::numeric_limits<std::int64_t>::max();

  PinsBySection() = default;
  // Throws OutOfTime.
  PinsBySection(const Part& part, Budget& budget);

  // The offset (units) of the section's pin number `index`, ascending by offset; kNoPin behind the last.
  std::int64_t offset(std::int32_t section, std::int64_t index) const {
    const std::span<const Pin> pins = of(section);
    return static_cast<std::size_t>(index) == pins.size() ? kNoPin : pins[static_cast<std::size_t>(index)].begin;
  }
  // The section's pins, ascending.
  std::span<const Pin> of(std::int32_t section) const {
    const auto t = static_cast<std::size_t>(section);
    return {pins_.data() + begin_[t], begin_[t + 1] - begin_[t]};
  }

 private:
  std::vector<std::size_t> begin_;  // [sections + 1] into pins_
  std::vector<Pin> pins_;
};

// A ceiling within a reserved range is lowered to where the range begins, since nothing can end in the range. Nothing
// when a pinned record ends above the ceiling.
std::optional<Ceiling> ceiling_around_pins(const Part& part, Ceiling ceiling);

}  // namespace edgemem::offset_search
