// Pinned records and reserved ranges: what is checked of them, and which addresses they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "planner/common/interval_set.h"
#include "planner/common/records.h"

namespace edgemem {

// The part of `check` that concerns pinned records and reserved ranges; none may end above `highest` (bytes).
void check_pins(const Records& records, std::int64_t highest);

// The reserved ranges as a set, in bytes.
IntervalSet reserved_set(const Records& records);

// The padded bytes of the pinned records that are alive, for a sweep over the operators in ascending order.
class PinnedRanges {
 public:
  explicit PinnedRanges(const Records& records) : records_(records) {}

  // Removes the records that end before operator `op`.
  void drop_before(std::int64_t op);
  // Adds pinned record i; returns false, and adds nothing, where it overlaps one that is alive.
  bool insert(std::size_t i);
  // The lowest address below which `bytes` are in none of these ranges and in no reserved range.
  std::int64_t room_for(std::int64_t bytes) const;

 private:
  using End = std::pair<std::int64_t, std::int64_t>;  // last operator, first byte

  const Records& records_;
  std::map<std::int64_t, std::int64_t> ranges_;  // first byte, end
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace edgemem
