// Groups placed in an order, each as low as those before it let it, and what a small change of the order changes.
//
//     order      A B C D E         rotated: A [D] [B C] E
//                                              ^ from here on, but only what conflicts with something that has moved
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/offsets/related/conflicts.h"

namespace edgemem::related {

class FirstFit {
 public:
  explicit FirstFit(const Conflicts& conflicts);

  // Places all groups. `order` holds every group without a pin once.
  void place(std::vector<Index> order);

  // Begins a change of the order, which `undo` takes back as a whole.
  void begin();
  // Exchanges the neighbouring parts [low, middle) and [middle, high) of the order.
  void rotate(std::size_t low, std::size_t middle, std::size_t high);
  // Places the groups anew that the rotations concern. Returns whether no group ends above `limit` (bytes) then; if
  // one does, the groups after it are not placed: only `undo` is left to do.
  bool settle(Value limit);
  void undo();

  const std::vector<Index>& order() const { return order_; }
  std::size_t position(Index group) const { return position_[group]; }
  const std::vector<Value>& bases() const { return base_; }
  Value end(Index group) const { return conflicts_.end(group, base_[group]); }
  // Bytes: the highest end of all groups, those with a pin included.
  Value top() const;
  // Groups placed so far and rows looked at, in units of about the same time.
  std::int64_t steps() const { return rows_seen_ / kRowsPerStep; }

 private:
  static constexpr std::int64_t kRowsPerStep = 16;

  struct Change {
    Index group;
    Value base;
  };
  struct Rotation {
    std::size_t low;
    std::size_t middle;
    std::size_t high;
  };

  Value lowest(Index group);
  void turn(const Rotation& rotation);
  void mark(Index group);

  const Conflicts& conflicts_;
  std::vector<Index> order_;
  std::vector<std::size_t> position_;
  std::vector<Value> base_;
  std::vector<char> is_marked_;  // to be placed anew
  std::size_t marked_ = 0;
  std::size_t lowest_marked_ = 0;
  std::vector<Conflicts::Range> taken_;
  std::vector<Change> changes_;
  std::vector<Rotation> rotations_;
  std::int64_t rows_seen_ = 0;
};

}  // namespace edgemem::related
