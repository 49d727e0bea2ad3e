// Which records lie inside which, as a forest numbered from the outside in.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "proof/records.h"

namespace edgemem::proof {

// Every record has a number, `enter`; those inside it, at any depth, have the numbers up to `leave` (exclusive). A
// record that is inside no other, and all that is inside it, are a nest: one value, or slices and pieces of it.
//
//     outer   [0 ----------------------- 4)        0 holds 1, 2 and 3
//     slices      [1 ------- 3)   [3 - 4)          1 holds 2
//                     [2 - 3)
class Nesting {
 public:
  // No record inside another: the numbers are the indices.
  Nesting() = default;
  // Throws std::invalid_argument for a record inside two others, or inside itself by a chain.
  Nesting(std::size_t count, std::span<const Within> rows);

  bool flat() const { return enter_.empty(); }
  Index enter(Index record) const { return flat() ? record : enter_[record]; }
  Index leave(Index record) const { return flat() ? record + 1 : leave_[record]; }
  // The record of the same nest that is inside no other.
  Index root(Index record) const { return flat() ? record : root_[record]; }
  // Whether the two are of one nest: what they share at their distance is the same bytes of the same value.
  bool related(Index a, Index b) const { return root(a) == root(b); }

 private:
  std::vector<Index> enter_;
  std::vector<Index> leave_;
  std::vector<Index> root_;
};

}  // namespace edgemem::proof
