// The shared objects problem solved as well as a given amount of work allows, with a proof where one is found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/common/stop.h"
#include "planner/shared_objects/object_records.h"

namespace edgemem {

struct ObjectSearchLimits {
  std::int64_t work = 10'000'000;  // steps: boxes tried, matchings mended and stocks made
  std::uint64_t seed = 1;
  std::optional<double> seconds;  // with it the result depends on the machine
  std::function<void()> poll;     // called now and then; what it throws ends the search
};

struct ObjectSearchResult {
  std::vector<std::int64_t> assignment;  // [n], objects numbered in the order of their first records
  std::int64_t size = 0;                 // bytes or texels: the objects' total
  std::int64_t bound = 0;                // the best lower bound proved
  Stop stopped = Stop::kBound;           // kBound: at the sum of the positional maxima; kProof: at a better bound
  std::int64_t work = 0;                 // steps done

  bool optimal() const { return size == bound; }
};

// Always returns a valid assignment, the same one for the same records, work and seed if no seconds are given. A first
// plan is made in any case, in O(n k) for k objects; where there is no time for that, in O(n log n). Throws
// std::invalid_argument for what `check` refuses.
ObjectSearchResult search_shared_objects(const ObjectRecords& records, const ObjectSearchLimits& limits);

}  // namespace edgemem
