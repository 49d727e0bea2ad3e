// Places free pieces around pinned ones: one after the other, into the gaps that what was placed before leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/interval_set.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

class GapFit {
 public:
  explicit GapFit(const Part& part);

  // Places the free pieces in `order`, each in the lowest gap that holds it, or in the smallest. False when one would
  // end at or above `size` bytes; throws OutOfTime when time is up.
  bool run(std::span<const std::int32_t> order, bool lowest, std::int64_t size, Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units

 private:
  const Part& part_;
  IntervalSet reserved_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace edgemem::offset_search
