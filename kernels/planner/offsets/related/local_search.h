// A search for a good order of the groups: change it a little where it decides the size, keep what is not worse.
//
//   bytes ^   top -> +-----+
//         |    +---+ |  x  |        x ends at the top. Its block is moved in the order, or one that conflicts with it
//         is, |    | y | +-----+        to the place of one that conflicts with that, or to any place. | +--+---+-+  z
//         |
//         +-+--------+-----+---> time
//
//   order     [ x1 x2 x3 ][ y1 y2 ][ z1 z2 z3 ]     blocks: the groups of one home, which move together in the order,
//             [ x1 ][ x2 ][ x3 ][ y1 ] ...          but are placed each for itself; or the groups one by one
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/related/first_fit.h"

namespace edgemem::related {

// SplitMix64 as a generator: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // From 0 to limit - 1; the limit is less than 2**32.
  std::size_t below(std::size_t limit);

 private:
  std::uint64_t state_;
};

// An order of the groups without a pin.
using Order = std::vector<Index>;

class LocalSearch {
 public:
  LocalSearch(const Conflicts& conflicts, std::uint64_t seed);

  // Places the groups in each of the orders, as long as the budget lasts (the first one always). Stops at the target
  // (bytes).
  void begin(const std::vector<Order>& starts, Budget& budget, Value target);
  // Changes the best order until the target is met, the budget is spent, `work` steps are done, or `rounds` times
  // nothing better was found in a while; then it goes on from another start each time. `block_of`: the block of each
  // group, below the number of groups.
  void run(const std::vector<Index>& block_of, Budget& budget, Value target, std::int64_t work,
           int rounds = std::numeric_limits<int>::max());

  Value size() const { return size_; }                        // bytes
  const std::vector<Value>& bases() const { return bases_; }  // of the best plan, in steps of the alignment
  const Order& order() const { return order_; }               // that gave it

 private:
  void keep();
  void place(Order order);
  bool change(Value limit);
  void move(Index moved, Index to);
  void exchange(Index a, Index b);
  Index conflicting(Index block);
  std::size_t begin_of(Index block) const { return plan_.position(blocks_[block].front()); }
  std::size_t end_of(Index block) const { return plan_.position(blocks_[block].back()) + 1; }

  const Conflicts& conflicts_;
  Random random_;
  FirstFit plan_;
  std::vector<Order> starts_;
  std::vector<Index> block_of_;
  std::vector<std::vector<Index>> blocks_;  // none is empty
  Value top_ = 0;                           // of plan_
  std::vector<Index> highest_;              // groups that end there
  Value size_ = std::numeric_limits<Value>::max();
  std::vector<Value> bases_;
  Order order_;
};

}  // namespace edgemem::related
