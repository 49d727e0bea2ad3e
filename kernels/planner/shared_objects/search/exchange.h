// Makes a plan smaller by exchanges between two of its objects: at a time when both are free, their later items may
// change places.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "planner/common/budget.h"
#include "planner/shared_objects/search/items.h"
#include "planner/shared_objects/search/plan.h"

namespace edgemem::object_search {

// Two objects fall into stretches of time between which both are free. In each stretch their items may change places:
// the large ones are gathered in one of the two, and where it makes no difference chance decides, so that the plan
// moves on even when nothing is gained. Now and then one stretch goes the wrong way. A plan may become
// larger than the best one by a leeway, which shrinks to nothing in the course of a round; rounds start from the best
// plan and differ in their first leeway.
class Exchange {
 public:
  Exchange(const Items& items, Plan plan, Budget& budget, std::uint64_t seed);

  // Tries one exchange between two objects. Returns whether the best plan became smaller.
  bool step();

  const Plan& best() const { return best_; }

 private:
  struct Stretch {
    std::size_t from;  // in `both_`
    std::size_t to;
    std::array<Box, 2> has;
    std::int64_t content;  // of the larger
    bool swapped;
  };

  void start_round();
  void list_members();
  void cut_into_stretches(std::size_t one, std::size_t other);
  std::array<Box, 2> arrange();
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  const Items& items_;
  Budget& budget_;
  std::mt19937_64 random_;
  Plan best_;
  Plan plan_;
  std::vector<std::vector<std::int32_t>> members_;   // per object of `plan_`, ascending
  std::vector<std::pair<std::int32_t, bool>> both_;  // items of the two objects, and whether of the other one
  std::vector<Stretch> stretches_;
  std::int64_t round_ = 0;
  std::int64_t turn_ = 0;  // of the round
  std::int64_t turns_ = 0;
};

}  // namespace edgemem::object_search
