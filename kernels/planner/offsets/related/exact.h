// Few groups, so that every plan can be tried: a plan that ends at a limit, or the proof that there is none.
//
//     base of x less base of y     ----------[ forbidden )----------
//                                      below            above
//
// For every forbidden range, x is below it or above it. As long as that is open, only the lowest and the highest base
// of each group are known; a side that these leave no room for is excluded, and the other side moves them. Where all
// groups at their lowest bases still meet a forbidden range, both sides of it are tried.
#pragma once

#include <optional>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/related/conflicts.h"

namespace edgemem::related {

// Sets of groups without a pin that no conflict joins.
std::vector<std::vector<Index>> components(const Conflicts& conflicts);

class Exact {
 public:
  enum class Answer { kFound, kNone, kUnknown };

  // Groups without a pin, of which none conflicts with a group without a pin that is not among them.
  Exact(const Conflicts& conflicts, std::vector<Index> groups);

  // Looks for bases with which all groups end at `limit` (bytes) or below. kUnknown: the budget was spent, or the
  // `work` steps of this call.
  Answer fit(Value limit, Budget& budget, std::int64_t work);
  // In steps of the alignment, of the groups in their order; after kFound.
  const std::vector<Value>& bases() const { return found_; }

 private:
  enum class Side : char { kOpen, kBelow, kAbove };
  struct Range {
    Index x;  // number among the groups
    Index y;
    Value begin;
    Value end;
  };
  struct State {
    std::vector<Value> low, high;  // bases
    std::vector<Side> sides;       // of x, for each range
  };

  bool narrow(State& state);
  bool narrow(State& state, std::size_t range, bool& changed) const;
  bool skip_fixed(State& state, Index group, bool& changed) const;
  std::optional<std::size_t> met(const State& state) const;
  Answer search(State state);

  const Conflicts& conflicts_;
  std::vector<Index> groups_;
  std::vector<Range> ranges_;
  std::size_t patience_ = 0;  // passes over all ranges that may change something while no side is chosen
  std::vector<Value> found_;
  Budget* budget_ = nullptr;
  std::int64_t left_ = 0;
};

}  // namespace edgemem::related
