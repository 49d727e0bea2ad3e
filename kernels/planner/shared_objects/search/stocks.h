// Examines stocks, which are sets of boxes, the cheapest first, until one is found that all items fit.
//
// A stock is refuted by a core, a few items that do not fit it. Every plan then has either one box more, or one box
// that grew to hold an item of the core. Those are the stock's successors. Stocks are examined in the order of their
// content, so that each one's content is a lower bound of all plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "planner/common/budget.h"
#include "planner/shared_objects/search/fitting.h"
#include "planner/shared_objects/search/items.h"

namespace edgemem::object_search {

// The boxes met so far, by number.
class Boxes {
 public:
  std::int32_t number(const Box& box);
  const Box& box(std::int32_t i) const { return box_[static_cast<std::size_t>(i)]; }
  std::int64_t content_of(std::int32_t i) const { return content_[static_cast<std::size_t>(i)]; }

 private:
  struct Hash {
    std::size_t operator()(const Box& box) const;
  };

  std::vector<Box> box_;
  std::vector<std::int64_t> content_;
  std::unordered_map<Box, std::int32_t, Hash> number_;
};

class Stocks {
 public:
  enum class Turn { kGoesOn, kFits, kExhausted, kSpent, kFull };

  // `start`: boxes that every plan covers, one object each.
  Stocks(const Items& items, const std::vector<Box>& start, Budget& budget);
  Stocks(const Stocks&) = delete;
  Stocks& operator=(const Stocks&) = delete;

  // Examines the cheapest stock. kFits: it holds all items, so it is optimal. kExhausted: every plan has at least
  // `ceiling`. kSpent: the budget is; kFull: the memory for stocks is.
  Turn step(std::int64_t ceiling);

  // Bytes or texels; no plan is smaller.
  std::int64_t bound() const { return bound_; }
  // After kFits.
  const std::vector<std::int32_t>& places() const { return places_; }

 private:
  struct Node {
    std::int64_t bound;
    std::size_t from;  // in `pool_`
    std::uint32_t count;
    bool operator<(const Node& other) const {
      return bound != other.bound ? bound > other.bound : from < other.from;  // of equals the latest
    }
  };
  struct Stretch {  // of `pool_`
    std::size_t from;
    std::size_t count;
  };
  struct SameBoxes {  // hash and equality
    const std::vector<std::int32_t>* pool;
    std::size_t operator()(const Stretch& stretch) const;
    bool operator()(const Stretch& a, const Stretch& b) const;
  };
  struct Core {
    std::vector<std::int32_t> items;
    std::vector<std::int32_t> types;  // distinct
  };

  std::vector<Box> boxes_of(const Node& node) const;
  std::int64_t content_of(const Node& node) const;
  std::int64_t least_growth(const Node& node, const Core& core) const;
  // The core that this stock fails by the most, by number; `cores_.size()` if it fails none; nullopt if spent.
  std::optional<std::size_t> worst_core(const Node& node, std::span<const Box> stock, std::int64_t& growth);
  std::optional<std::vector<std::int32_t>> shrink_core(std::span<const Box> stock, std::vector<std::int32_t> core);
  Fitting::Answer fit_all(std::span<const Box> stock);
  Turn give_up();
  void branch(const Node& node, const Core& core, std::int64_t ceiling);
  void push(std::vector<std::int32_t> stock, std::int64_t bound);

  const Items& items_;
  Budget& budget_;
  Fitting fitting_;
  Boxes boxes_;
  std::int64_t steps_per_question_;  // steps that one question may take; what takes longer is asked again with more
  std::vector<Core> cores_;
  std::vector<std::int32_t> pool_;
  std::priority_queue<Node> open_;
  std::unordered_set<Stretch, SameBoxes, SameBoxes> seen_;
  std::int64_t bound_ = 0;
  std::vector<std::int32_t> places_;
};

}  // namespace edgemem::object_search
