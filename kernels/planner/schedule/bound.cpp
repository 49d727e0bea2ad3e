#include "planner/schedule/bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "planner/common/index.h"
#include "planner/schedule/cuts.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/relaxed.h"
#include "planner/schedule/run.h"
#include "planner/schedule/series.h"

namespace edgemem::schedule {
namespace {

// How many of the last cuts are tried on an operator before its own is found.
constexpr std::size_t kRemembered = 4;
// How many operators with the most at their step groups are formed around.
constexpr std::size_t kAnchors = 8;
// Each group is larger than the one before by one operator, and by one for so many.
constexpr std::size_t kGroupGrowth = 8;

class BoundSearch {
 public:
  BoundSearch(const Problem& problem, std::span<const std::int64_t> order, Budget* budget)
      : problem_(problem),
        budget_(*budget),
        order_(order.begin(), order.end()),
        place_(order.size()),
        step_(order.size()),
        relaxed_(relaxed(problem)),
        cuts_(relaxed_),
        bound_(least_peak(relaxed_)) {
    Run run(relaxed_);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      place_[at(order_[k])] = k;
      step_[at(order_[k])] = run.during(order_[k]);
      run.run(order_[k]);
    }
  }

  std::int64_t run() {
    if (!one_by_one()) return bound_;
    for (const std::vector<Id>& choice : choices()) {
      if (!groups(choice, true) || !groups(choice, false)) break;
    }
    return bound_;
  }

 private:
  struct Pending {
    std::int64_t most;  // the least at its step is not above it
    Id op;
    bool is_tried;  // along the known order

    bool operator<(const Pending& other) const { return std::pair(most, other.op) < std::pair(other.most, op); }
  };

  // Counts the work of the cuts. Returns whether there is some left.
  bool spend() { return budget_.spend(cuts_.work() - std::exchange(spent_, cuts_.work())); }

  // Operators with the most at their step in the known order come first, until that is no more than the bound.
  bool one_by_one() {
    std::vector<Pending> heap;
    for (const Id k : order_) heap.push_back({step_[at(k)], k, false});
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty() && heap.front().most > bound_) {
      if (!spend()) return false;
      std::pop_heap(heap.begin(), heap.end());
      Pending& next = heap.back();
      if (next.is_tried) {
        try_one(next.op, next.most);
        heap.pop_back();
        continue;
      }
      next.most = std::min(next.most, cuts_.along(next.op, order_));
      next.is_tried = true;
      std::push_heap(heap.begin(), heap.end());
    }
    return true;
  }

  void try_one(Id op, std::int64_t most) {
    for (const std::vector<char>& ran : remembered_) {
      most = std::min(most, cuts_.beside(op, ran, order_));
      if (most <= bound_) return;
    }
    const std::int64_t least = cuts_.least(op, most);
    bound_ = std::max(bound_, std::min(least, most));
    if (least >= most) return;
    if (remembered_.size() < kRemembered) remembered_.emplace_back();
    remembered_[oldest_++ % kRemembered] = cuts_.ran();
  }

  // Where groups are taken from: parts that run one after the other, and what may run before or after an operator that
  // needs much in the known order. Operators that come before others in any order would make the first step a poor one.
  std::vector<std::vector<Id>> choices() {
    std::vector<std::vector<Id>> found;
    const std::vector<std::size_t> places = series_places(relaxed_, order_);
    for (std::size_t p = 0; p + 1 < places.size(); ++p) {
      const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(places[p]);
      const auto end = order_.begin() + static_cast<std::ptrdiff_t>(places[p + 1]);
      if (std::any_of(begin, end, [&](Id k) { return step_[at(k)] > bound_; })) found.emplace_back(begin, end);
    }
    std::vector<Id> highest(order_);
    std::stable_sort(highest.begin(), highest.end(), [&](Id a, Id b) { return step_[at(a)] > step_[at(b)]; });
    for (std::size_t k = 0; k < std::min(kAnchors, highest.size()); ++k) {
      found.push_back(cuts_.unordered(highest[k]));
      found.back().push_back(highest[k]);
    }
    return found;
  }

  // Groups of the operators of a choice that need the most at their step, from the smallest to all. `first`: the one of
  // them that runs first counts, otherwise the last.
  bool groups(const std::vector<Id>& choice, bool first) {
    const auto need = [&](Id k) {
      const std::int64_t taken = relaxed_.over[k].empty() ? 0 : relaxed_.size[at(relaxed_.writes[k].front())];
      return std::max(relaxed_.early[at(k)] + relaxed_.inside[at(k)],
                      relaxed_.born[at(k)] + relaxed_.own[at(k)] - taken);
    };
    std::vector<Id> sorted(choice);
    std::stable_sort(sorted.begin(), sorted.end(), [&](Id a, Id b) { return need(a) > need(b); });
    const auto comes_sooner = [&](Id a, Id b) { return (place_[at(a)] < place_[at(b)]) == first; };
    std::vector<char> in_group(order_.size(), 0);
    Id known = -1;         // the operator of the group that is the first in the known order
    std::size_t size = 2;  // of the next group
    Id failed = -1;        // where the last group's bound was too low
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      const Id added = sorted[k];
      in_group[at(added)] = 1;
      if (known < 0 || comes_sooner(added, known)) known = added;
      const bool is_whole = k + 1 == sorted.size() || need(sorted[k + 1]) < need(added);
      if (k + 1 < size || !is_whole || step_[at(known)] <= bound_) continue;
      size = k + 2 + k / kGroupGrowth;
      if (!try_group(in_group, first, step_[at(known)], &failed)) return false;
    }
    return true;
  }

  bool try_group(const std::vector<char>& in_group, bool first, std::int64_t most, Id* failed) {
    const std::vector<Id> ends = ends_of(in_group, first);
    std::vector<Id> group;
    for (const Id k : order_) {
      if (in_group[at(k)] != 0) group.push_back(k);
    }
    std::int64_t least = most;
    const auto is_enough = [&](Id end) {
      std::vector<Id> others;
      std::copy_if(group.begin(), group.end(), std::back_inserter(others), [&](Id k) { return k != end; });
      least = std::min(least, first ? cuts_.least(end, least, others, {}) : cuts_.least(end, least, {}, others));
      if (least <= bound_) *failed = end;
      return least > bound_;
    };
    if (std::find(ends.begin(), ends.end(), *failed) != ends.end() && !is_enough(*failed)) return spend();
    for (const Id end : ends) {
      if (!spend()) return false;
      if (!is_enough(end)) return true;
    }
    bound_ = least;
    return true;
  }

  // The operators of a group that may be its first, or its last, in some order.
  std::vector<Id> ends_of(const std::vector<char>& in_group, bool first) const {
    std::vector<char> is_beyond(order_.size(), 0);  // something of the group must come before it, or after it
    std::vector<Id> ends;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const Id op = order_[first ? k : order_.size() - 1 - k];
      const Ids nearer = first ? problem_.before[op] : problem_.after[op];
      is_beyond[at(op)] = std::any_of(nearer.begin(), nearer.end(),
                                      [&](Id n) { return in_group[at(n)] != 0 || is_beyond[at(n)] != 0; });
      if (in_group[at(op)] != 0 && is_beyond[at(op)] == 0) ends.push_back(op);
    }
    return ends;
  }

  const Problem& problem_;
  Budget& budget_;
  std::vector<Id> order_;
  std::vector<std::size_t> place_;  // of each operator in the order
  std::vector<std::int64_t> step_;  // of each operator: bytes at its step in the order
  Problem relaxed_;
  Cuts cuts_;
  std::int64_t bound_;
  std::vector<std::vector<char>> remembered_;
  std::size_t oldest_ = 0;
  std::int64_t spent_ = 0;
};

}  // namespace

std::int64_t lower_bound(const Problem& problem, std::span<const std::int64_t> order, Budget* budget) {
  (void)peak(problem, order);  // checks the order
  return BoundSearch(problem, order, budget).run();
}

}  // namespace edgemem::schedule
