// Which differences of offsets are forbidden: of pairs of records, and of the groups they are in.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "planner/common/poll.h"
#include "planner/offsets/related/relations.h"

namespace edgemem::related {

struct Groups;

// offset[a] - offset[b] must not be in [begin, end), in steps of the alignment.
//
//     disjoint    [ b      )       or  [ a  )           forbidden: -size[a] < difference < size[b]
//             [a )                            [ b   )
//     overlap (a, b, distance)                          forbidden: -size[a] < difference < min(size[b], distance)
struct Pair {
  Index a;
  Index b;
  Value begin;
  Value end;
};

// The pairs of records that are alive together, but for those of one nest: they may share bytes. O(n log n + pairs).
// Throws std::length_error for more than `most` of them.
inline constexpr std::size_t kMostPairs = 16'000'000;
std::vector<Pair> forbidden_pairs(const Records& records, const Relations& relations, Poll& poll,
                                  std::size_t most = kMostPairs);

// For each group, the differences to every other group that are forbidden, and the bases that are.
class Conflicts {
 public:
  struct Row {
    Index other;
    Value begin;  // base of the group less base of the other must not be in [begin, end)
    Value end;
  };
  struct Range {
    Value begin;
    Value end;
  };

  Conflicts(const Records& records, const Groups& groups, const std::vector<Pair>& pairs);

  std::size_t count() const { return top_.size(); }
  // Sorted by the other group and by `begin`, disjoint for each other group. None of them is pinned.
  std::span<const Row> rows(Index group) const {
    return {rows_.data() + row_begin_[group], rows_.data() + row_begin_[group + 1]};
  }
  // Bases that pinned groups and reserved ranges forbid; ascending, disjoint.
  std::span<const Range> ranges(Index group) const {
    return {ranges_.data() + range_begin_[group], ranges_.data() + range_begin_[group + 1]};
  }
  Value step() const { return step_; }                  // bytes
  Value pin(Index group) const { return pin_[group]; }  // -1: none
  // Bytes: where the group ends, with its base (in steps).
  Value end(Index group, Value base) const { return base * step_ + top_[group]; }

 private:
  Value step_;
  std::vector<Value> top_;
  std::vector<Value> pin_;
  std::vector<Row> rows_;
  std::vector<std::size_t> row_begin_;
  std::vector<Range> ranges_;
  std::vector<std::size_t> range_begin_;
};

}  // namespace edgemem::related
