#include "planner/schedule/parts.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/index.h"
#include "planner/schedule/beam.h"
#include "planner/schedule/bound.h"
#include "planner/schedule/hills.h"
#include "planner/schedule/part.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/run.h"
#include "planner/schedule/series.h"

namespace edgemem::schedule {
namespace {

// Arcs that the bounds of all parts may look at for each step of the searches.
constexpr std::int64_t kArcsPerStep = 20;
// Parts side by side, within parts side by side, and so on. A training step can be as deep as the network.
constexpr int kDeepest = 8;

struct Ordered {
  Numbers order;
  std::int64_t peak;
  std::int64_t bound;  // no order has a lower peak
};

struct Part {
  std::vector<Id> ops;  // of the whole; operator k of the part is ops[k]
  Problem problem;
  Ordered found;
  bool is_searched = false;
};

class Division {
 public:
  Division(const Problem& problem, const Start& start, const Limits& limits)
      : problem_(problem),
        start_(start),
        limits_(limits),
        budget_(limits.work, limits.seconds, at(problem.count())),
        arcs_(kArcsPerStep * std::min(limits.work, kMostWork), limits.seconds) {
    if (limits.seconds) end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(*limits.seconds));
    budget_.poll(limits.poll);
    arcs_.poll(limits.poll);
  }

  Solved run() {
    const Ordered known = better(problem_, start_.order, greedy(problem_));
    const Ordered found = known.peak <= start_.bound ? known : order(problem_, known, start_.bound, limits_.work);
    Solved solved{found.order, std::max(found.bound, start_.bound), Stop::kWork, budget_.spent()};
    if (found.peak <= start_.bound) {
      solved.stopped = Stop::kBound;
    } else if (found.peak <= found.bound) {
      solved.stopped = Stop::kProof;
    } else if (budget_.out_of_time()) {
      solved.stopped = Stop::kTime;
    }
    return solved;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr std::int64_t kMostWork = 1'000'000'000;

  // The order with the lower peak; an empty one is none.
  static Ordered better(const Problem& problem, const Numbers& first, const Numbers& second) {
    const std::int64_t most = peak(problem, second);
    if (first.empty() && problem.count() > 0) return {second, most, 0};
    const std::int64_t least = peak(problem, first);
    return least <= most ? Ordered{first, least, 0} : Ordered{second, most, 0};
  }

  // Peaks up to `floor` are equally good. `work`: steps of searches.
  Ordered order(const Problem& problem, const Ordered& known, std::int64_t floor, std::int64_t work) {
    std::vector<Part> parts = divide(problem, known, floor);
    std::int64_t bound = problem.at_start;
    for (Part& part : parts) {
      bound = std::max(bound, part.found.bound);
      // The searches of the whole are as good at it.
      if (4 * part.ops.size() > 3 * at(problem_.count())) part.is_searched = true;
    }
    const std::int64_t end = budget_.spent() + work;
    while (!parts.empty()) {
      Part& highest = *std::max_element(parts.begin(), parts.end(),
                                        [](const Part& a, const Part& b) { return a.found.peak < b.found.peak; });
      Ordered& found = highest.found;
      if (found.peak <= std::max(bound, floor) || highest.is_searched) break;
      search(highest, std::max(bound, floor), end - budget_.spent());
      bound = std::max(bound, found.bound);
      if (!budget_.spend(0)) break;
    }
    Ordered all{{}, problem.at_start, bound};
    for (const Part& part : parts) {
      for (const std::int64_t k : part.found.order) all.order.push_back(part.ops[static_cast<std::size_t>(k)]);
    }
    all.peak = peak(problem, all.order);
    return all.peak <= known.peak ? all : Ordered{known.order, known.peak, bound};
  }

  // The parts that run one after the other, each with the best of some quick orders.
  std::vector<Part> divide(const Problem& problem, const Ordered& known, std::int64_t floor) {
    const std::vector<Id> sequence(known.order.begin(), known.order.end());
    const std::vector<std::size_t> places = series_places(problem, sequence);
    std::vector<Part> parts;
    Run run(problem);
    for (std::size_t p = 0; p + 1 < places.size(); ++p) {
      const std::vector<Id> ops(sequence.begin() + static_cast<std::ptrdiff_t>(places[p]),
                                sequence.begin() + static_cast<std::ptrdiff_t>(places[p + 1]));
      Problem alone = part_of(problem, ops, run);
      Ordered quick = order_quickly(alone, floor);
      parts.push_back({ops, std::move(alone), std::move(quick)});
      for (const Id k : ops) run.run(k);
    }
    return parts;
  }

  // A part whose operators stand in the order that is known.
  Ordered order_quickly(const Problem& problem, std::int64_t floor) {
    Numbers given;
    for (Id k = 0; k < problem.count(); ++k) given.push_back(k);
    if (problem.count() == 1) {
      const std::int64_t only = peak(problem, given);
      return {given, only, only};
    }
    Ordered best = better(problem, given, greedy(problem));
    if (best.peak <= floor) return best;
    best.bound = lower_bound(problem, best.order, &arcs_);
    const std::vector<std::vector<Id>> sides = components(problem);
    if (best.peak <= best.bound || sides.size() == 1 || depth_ == kDeepest) return best;
    ++depth_;
    const Ordered merged = better(problem, best.order, merge_sides(problem, sides));
    --depth_;
    return {merged.order, merged.peak, best.bound};
  }

  // The best orders of operators that need nothing of each other, merged.
  Numbers merge_sides(const Problem& problem, const std::vector<std::vector<Id>>& sides) {
    const Run nothing(problem);
    std::vector<Profile> profiles;
    std::vector<Numbers> orders;
    for (const std::vector<Id>& side : sides) {
      const Problem alone = part_of(problem, side, nothing);
      const Ordered found = order(alone, better(alone, {}, greedy(alone)), 0, work_for_sides(sides.size()));
      profiles.emplace_back();
      orders.emplace_back();
      Run run(alone);
      const std::int64_t begin = run.live();
      for (const std::int64_t k : found.order) {
        profiles.back().during.push_back(run.during(static_cast<Id>(k)) - begin);
        run.run(static_cast<Id>(k));
        profiles.back().after.push_back(run.live() - begin);
        orders.back().push_back(side[static_cast<std::size_t>(k)]);
      }
    }
    Numbers merged;
    std::vector<std::size_t> next(sides.size(), 0);
    for (const std::size_t side : merge(profiles)) merged.push_back(orders[side][next[side]++]);
    return merged;
  }

  std::int64_t work_for_sides(std::size_t count) const {
    return (limits_.work - budget_.spent()) / (4 * static_cast<std::int64_t>(count));
  }

  void search(Part& part, std::int64_t floor, std::int64_t work) {
    part.is_searched = true;
    std::optional<double> seconds;
    if (end_) seconds = std::max(0.0, Seconds(*end_ - Clock::now()).count());
    const Limits limits{std::max<std::int64_t>(work, 0), limits_.seed, seconds, limits_.poll};
    const Solved solved = beam(part.problem, {part.found.order, floor}, limits);
    budget_.spend(solved.work);
    part.found.order = solved.order;
    part.found.peak = peak(part.problem, solved.order);
    if (solved.stopped == Stop::kProof) part.found.bound = std::max(part.found.bound, solved.bound);
  }

  const Problem& problem_;
  const Start& start_;
  const Limits& limits_;
  Budget budget_;
  Budget arcs_;
  int depth_ = 0;
  std::optional<Clock::time_point> end_;
};

}  // namespace

Solved order_parts(const Problem& problem, const Start& start, const Limits& limits) {
  return Division(problem, start, limits).run();
}

}  // namespace edgemem::schedule
