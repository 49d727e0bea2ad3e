// Placements around pinned pieces: one after the other into the gaps that they and those before leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/interval_set.h"
#include "planner/search/budget.h"
#include "planner/search/pieces.h"

namespace edgemem::search {

class GapFit {
 public:
  explicit GapFit(const Pieces& pieces);

  // The free pieces in `order`, each in the lowest gap that holds it, or the smallest. False when one would end at or
  // above `size` bytes; throws Late when time is up.
  bool run(std::span<const std::int32_t> order, bool lowest, std::int64_t size, Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units

 private:
  const Pieces& pieces_;
  IntervalSet reserved_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace edgemem::search
