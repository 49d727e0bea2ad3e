#include "planner/schedule/improve.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/index.h"
#include "planner/schedule/part.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/run.h"
#include "planner/schedule/small.h"

namespace edgemem::schedule {
namespace {

constexpr std::size_t kShortest = 6;  // operators that are ordered anew
constexpr std::size_t kLongest = 40;
constexpr std::size_t kFarthest = 200;  // places that an operator is moved over
constexpr std::size_t kMostMoved = 24;  // with what goes with it
constexpr std::size_t kWidths[] = {16, 64, 256};
constexpr std::size_t kAllWidth = 4096;  // where all operators are ordered at once
// What lies below the peak by this part of it costs nothing.
constexpr std::int64_t kShares[] = {4, 8, 16, 32};

struct Sequence {
  std::vector<Id> order;
  Numbers steps;  // bytes alive at each one
  std::int64_t peak = 0;
};

class LocalSearch {
 public:
  LocalSearch(const Problem& problem, const Start& start, const Limits& limits)
      : problem_(problem),
        bound_(start.bound),
        budget_(limits.work, limits.seconds, at(problem.count())),
        random_(limits.seed),
        run_(problem),
        moves_(at(problem.count()), 0) {
    budget_.poll(limits.poll);
    const Numbers order = start.order.empty() ? greedy(problem) : start.order;
    (void)peak(problem, order);  // checks it
    current_.order.assign(order.begin(), order.end());
    measure(&current_);
  }

  Solved run() {
    const bool is_proved = problem_.count() <= SmallSearch::kMost && try_all();
    const auto count = static_cast<std::int64_t>(current_.order.size());
    while (!is_proved && current_.peak > bound_ && budget_.spend(count)) try_change();
    Solved solved;
    solved.order.assign(current_.order.begin(), current_.order.end());
    solved.work = budget_.spent();
    solved.bound = is_proved ? current_.peak : bound_;
    if (current_.peak <= bound_) {
      solved.stopped = Stop::kBound;
    } else if (is_proved) {
      solved.stopped = Stop::kProof;
    } else if (budget_.out_of_time()) {
      solved.stopped = Stop::kTime;
    }
    return solved;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  void measure(Sequence* sequence) {
    run_.reset();
    sequence->steps.clear();
    sequence->peak = run_.live();
    for (const Id k : sequence->order) {
      sequence->steps.push_back(run_.during(k));
      sequence->peak = std::max(sequence->peak, sequence->steps.back());
      run_.run(k);
    }
  }

  std::int64_t cost(const Sequence& sequence) const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : sequence.steps) sum += price_.of(bytes);
    return sum;
  }

  // Asks for lower and lower peaks of all operators at once. Returns whether there is none.
  bool try_all() {
    SmallSearch all(problem_);
    while (current_.peak > bound_) {
      price_.most = price_.low = current_.peak - 1;
      price_.high = current_.peak;
      const auto found = all.find(price_, kAllWidth, 0, &budget_);
      if (found.order.empty()) return found.is_best;
      current_.order = found.order;
      measure(&current_);
    }
    return false;
  }

  void try_change() {
    choose_price();
    const std::size_t centre = choose_step();
    trial_.order = current_.order;
    if (below(2) == 0 && !shift(centre)) return;
    const std::size_t most = std::min(kLongest, trial_.order.size());
    const std::size_t count = std::min(kShortest + below(kLongest - kShortest), most);
    const std::size_t begin = std::min(centre - std::min(centre, below(count)), trial_.order.size() - count);
    if (!reorder(begin, count)) return;
    measure(&trial_);
    if (trial_.peak <= current_.peak && cost(trial_) <= cost(current_)) std::swap(current_, trial_);
  }

  void choose_price() {
    const std::int64_t peak = current_.peak;
    price_.most = price_.high = peak;
    price_.low = std::max(std::min(bound_, peak - 1), peak - 1 - peak / kShares[below(std::size(kShares))]);
    price_.for_high = (peak - price_.low) * static_cast<std::int64_t>(current_.order.size());
  }

  // A place where the order is at its peak, or one time in three where a step costs anything.
  std::size_t choose_step() {
    const std::int64_t least = below(3) == 0 ? price_.low + 1 : current_.peak;
    chosen_.clear();
    for (std::size_t k = 0; k < current_.steps.size(); ++k) {
      if (current_.steps[k] >= least) chosen_.push_back(k);
    }
    return chosen_.empty() ? below(current_.steps.size()) : chosen_[below(chosen_.size())];
  }

  // Moves an operator of `trial_` across a place, with what must go along. Returns whether that changed anything.
  bool shift(std::size_t centre) {
    const std::size_t far = 1 + below(std::min(kFarthest, trial_.order.size()));
    const bool forward = below(2) == 0;
    const std::size_t first = forward ? centre : centre - std::min(centre, far);
    const std::size_t last = forward ? std::min(centre + far, trial_.order.size() - 1) : centre;
    const std::size_t count = last - first + 1;
    std::fill(moves_.begin(), moves_.end(), 0);
    moves_[at(trial_.order[forward ? last : first])] = 1;
    std::size_t moved = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const Id op = trial_.order[forward ? last - k : first + k];
      if (moves_[at(op)] == 0) continue;
      ++moved;
      for (const Id next : forward ? problem_.before[op] : problem_.after[op]) moves_[at(next)] = 1;
    }
    if (moved > kMostMoved || moved == count) return false;
    const auto begin = trial_.order.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_partition(begin, begin + static_cast<std::ptrdiff_t>(count),
                          [&](Id op) { return (moves_[at(op)] != 0) == forward; });
    return true;
  }

  // Orders some neighbours in `trial_` anew. Returns whether an order was found that is not above the peak.
  bool reorder(std::size_t begin, std::size_t count) {
    run_.reset();
    for (std::size_t k = 0; k < begin; ++k) run_.run(trial_.order[k]);
    const auto place = trial_.order.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<Id> ops(place, place + static_cast<std::ptrdiff_t>(count));
    const Problem part = part_of(problem_, ops, run_);
    const auto found = SmallSearch(part).find(price_, kWidths[below(std::size(kWidths))], random_(), &budget_);
    if (found.order.empty()) return false;
    std::transform(found.order.begin(), found.order.end(), place, [&](Id k) { return ops[at(k)]; });
    return true;
  }

  const Problem& problem_;
  std::int64_t bound_;
  Budget budget_;
  std::mt19937_64 random_;
  Run run_;
  Sequence current_;
  Sequence trial_;
  Price price_;
  std::vector<char> moves_;          // of each operator
  std::vector<std::size_t> chosen_;  // places
};

}  // namespace

Solved improve(const Problem& problem, const Start& start, const Limits& limits) {
  return LocalSearch(problem, start, limits).run();
}

}  // namespace edgemem::schedule
