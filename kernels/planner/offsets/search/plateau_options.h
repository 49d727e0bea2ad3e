// What can be done at an end of a plateau: place a piece, leave a guessed hole, or lift the end section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/index.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau_state.h"

namespace edgemem::offset_search {

struct Option {
  static constexpr std::int32_t kLift = -1;
  static constexpr std::int32_t kHole = -2;

  std::int32_t piece;     // to place, or kLift or kHole
  std::int32_t from = 0;  // of a hole: its boundaries, by number (holes.h)
  std::int32_t to = 0;
  std::int64_t size = 0;  // of a hole: units
};

class PlateauOptions {
 public:
  // All must outlive this; without guessed holes `holes` is null.
  PlateauOptions(const Part& part, const Holes* holes, const PlateauState& state)
      : part_(part), holes_(holes), state_(state), has_pins_(!part.pinned.empty()) {}

  // Pieces of greater weight come first; before that, with `prefer_contact`, those with more contacts.
  void order_by(std::span<const double> weight, bool prefer_contact) {
    weight_.assign(weight.begin(), weight.end());
    prefer_contact_ = prefer_contact;
  }

  struct Count {
    std::int64_t options = 0;
    int contacts = 0;  // of the option that has most; 0 unless contacts are preferred
  };
  // Of the left or right end of a plateau.
  Count count(const Walls& walls, bool right) const;
  // Appends the options of that end, those to be tried first in front. Throws OutOfTime.
  void list(const Walls& walls, bool right, std::vector<Option>& options, Budget& budget) const;
  // The height to which a lift of that end leads, or kInfinite if the section cannot spare as much.
  std::int64_t lift_height(const Walls& walls, bool right) const;

 private:
  static int contacts(std::int32_t begin, std::int32_t end, std::int64_t size, const Walls& walls);
  int contacts(const Option& option, const Walls& walls) const;
  std::int32_t nearest_support(const Walls& walls, bool right) const;
  template <typename Visit>
  void visit_pieces(const Walls& walls, bool right, const Visit& visit) const;
  template <typename Visit>
  void visit_pieces_below_pins(const Walls& walls, bool right, const Visit& visit) const;
  template <typename Visit>
  void visit_holes(const Walls& walls, bool right, const Visit& visit) const;
  std::int64_t support_height_left(const Walls& walls) const;
  std::int64_t support_height_right(const Walls& walls) const;
  std::int64_t support_height_around_pins(const Walls& walls, bool right) const;

  const Part& part_;
  const Holes* const holes_;
  const PlateauState& state_;
  const bool has_pins_;
  std::vector<double> weight_;
  bool prefer_contact_ = false;
};

}  // namespace edgemem::offset_search
