// Decides whether items fit a stock of boxes: each in one box for its whole life, no two in one box at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/shared_objects/search/items.h"

namespace edgemem::object_search {

// States of a search that failed, by 128 bits of hash. Forgets all of them when it is full.
class DeadStates {
 public:
  using Key = std::array<std::uint64_t, 2>;

  void clear();
  bool contains(const Key& key) const;
  void insert(const Key& key);

 private:
  struct Slot {
    Key key{};
    std::uint32_t stamp = 0;
  };

  std::size_t slot_of(const Key& key) const;
  void place(const Key& key);

  std::vector<Slot> slots_ = std::vector<Slot>(1 << 8);
  std::size_t filled_ = 0;
  std::uint32_t stamp_ = 1;
};

// A depth-first search that places item after item in order of time, in the smallest free box first, and remembers dead
// states. Boxes of one size are one class; a state is how many boxes of each class are taken, and until when. Where the
// problem is small enough, every section keeps a matching of its live items to boxes, so that a choice fails at once if
// it leaves no room in a section of the item's life.
class Fitting {
 public:
  enum class Answer { kFits, kDoesNot, kUnknown };

  Fitting(const Items& items, Budget& budget) : items_(items), budget_(budget) {}

  // `members`: items, ascending. kUnknown: `most` steps or the budget were spent.
  Answer run(std::span<const Box> stock, std::span<const std::int32_t> members, std::int64_t most);

  // After kFits: which of `stock` each member is in.
  std::vector<std::int32_t> places() const;
  // After kDoesNot: members that do not fit, even without the others.
  const std::vector<std::int32_t>& misfits() const { return misfits_; }

 private:
  struct Class {
    Box box;
    std::int64_t content;
    std::int32_t first;  // of its boxes in `order_`
    std::int32_t count;
  };

  void sort_classes(std::span<const Box> stock);
  void lay_out(std::span<const std::int32_t> members);
  bool spend(std::int64_t steps);
  bool member_fits(std::size_t k, std::size_t c) const {
    return is_nested_ || holds(classes_[c].box, items_.box_of(members_[k]));
  }

  bool match_all();
  bool augment(std::size_t section, std::size_t slot);
  bool relieve(std::size_t section, std::size_t c);
  bool choose(std::size_t k, std::size_t c);
  std::size_t slot_of(std::size_t section, std::size_t k) const;

  Answer search();
  bool enter(std::size_t k);
  void leave(std::size_t k);
  void take(std::size_t k, std::size_t c);
  void give_back(std::size_t k);
  void count_state(std::size_t k, bool add);
  DeadStates::Key key(std::size_t k) const;

  const Items& items_;
  Budget& budget_;
  std::int64_t left_ = 0;
  std::size_t reach_ = 0;  // the last member that had a part in a failure
  bool is_nested_ = true;

  std::vector<std::int32_t> order_;  // the stock, class by class
  std::vector<Class> classes_;       // ascending in content
  std::vector<std::int32_t> members_;
  std::vector<std::int32_t> misfits_;
  // Per member: the first class large enough, the sections of its life (those in which a member begins), what it has.
  std::vector<std::size_t> low_;
  std::vector<std::size_t> begin_;
  std::vector<std::size_t> end_;
  std::vector<std::size_t> has_;
  std::vector<std::int64_t> tried_;  // the class tried last, or one before the first to try
  std::vector<bool> same_;           // as the member before it
  std::vector<std::size_t> by_end_;
  std::vector<std::size_t> released_;  // [members + 1] how many of `by_end_` have ended when the member begins
  std::size_t sections_ = 0;
  std::vector<std::int32_t> free_;  // boxes of each class
  DeadStates::Key state_{};
  DeadStates dead_;

  bool matched_ = false;                 // whether the sections have matchings
  std::size_t chosen_ = 0;               // members before this one have their class for good
  std::vector<std::size_t> live_start_;  // [sections + 1]
  std::vector<std::size_t> live_;        // members, ascending in each section
  std::vector<std::size_t> in_;          // the class of each of `live_`
  std::vector<std::int32_t> used_;       // [sections * classes]
  std::vector<bool> visited_;
};

}  // namespace edgemem::object_search
