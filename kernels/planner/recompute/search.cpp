#include "planner/recompute/search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "planner/common/index.h"
#include "planner/recompute/repair.h"

namespace edgemem::recompute {
namespace {

constexpr std::size_t kMostTaken = 24;  // runs that are taken away at once
constexpr std::size_t kMostMoved = 4;   // runs that are moved at once
constexpr std::size_t kFarthest = 64;   // places that a run is moved over
constexpr double kNoise = 0.7;

class Search {
 public:
  Search(Progress& progress, const std::vector<char>& repeatable)
      : progress_(progress), repair_(progress, repeatable) {}

  Found run() {
    const bool improve = progress_.wanted().improve;
    if (repair_.run(0) || improve) tidy();
    while (improve && !is_best() && progress_.budget().spend(1)) vary();
    const State& found = progress_.best().excess <= 0 ? progress_.best() : progress_.lowest();
    Stop stopped = Stop::kProof;
    if (is_best()) {
      stopped = Stop::kBound;
    } else if (progress_.is_over()) {
      stopped = progress_.budget().out_of_time() ? Stop::kTime : Stop::kWork;
    }
    return {found.runs, found.peak, found.cost, stopped, progress_.budget().spent()};
  }

 private:
  bool is_best() const {
    return progress_.best().excess <= 0 && progress_.best().cost <= progress_.wanted().least_cost;
  }

  // Takes away runs that are not needed, the most expensive first.
  void tidy() {
    while (tidy_once()) {
    }
  }

  // Returns whether there may be more to take away: what makes a run needed may have gone.
  bool tidy_once() {
    bool changed = false;
    auto places = repeated();
    for (std::size_t n = 0; n < places.size(); ++n) {
      if (progress_.is_over()) return false;
      const std::size_t place = places[n].second;
      const State& current = progress_.current();
      progress_.trial() = current.runs;
      progress_.trial().erase(progress_.trial().begin() + static_cast<std::ptrdiff_t>(place));
      const State* const found = progress_.measure();
      if (found == nullptr || found->excess > current.excess || found->cost >= current.cost) continue;
      const bool is_one = found->runs.size() + 1 == current.runs.size();
      progress_.accept();
      changed = true;
      if (!is_one) break;
      for (auto& [cost, later] : places) later -= later > place ? 1 : 0;
    }
    return changed;
  }

  // The runs of operators that run several times, the most expensive first: cost and place.
  std::vector<std::pair<std::int64_t, std::size_t>> repeated() const {
    const std::vector<Id>& runs = progress_.current().runs;
    const std::vector<Id> times = progress_.times(runs);
    std::vector<std::pair<std::int64_t, std::size_t>> found;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (times[at(runs[run])] > 1) found.emplace_back(progress_.cost(runs[run]), run);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    return found;
  }

  // One try, after which the current runs are not worse.
  void vary() {
    const State before = progress_.current();
    const bool changed = progress_.below(3) == 0 ? move_some() : take_away();
    if (!changed) return;
    if (progress_.current().excess > 0) repair_.run(kNoise);
    if (progress_.current().excess <= 0) tidy();
    if (progress_.current().worse_than(before)) progress_.go_back(before);
  }

  // Takes away some runs that are not an operator's only one, near each other or anywhere. Returns whether any was.
  bool take_away() {
    const std::vector<Id>& runs = progress_.current().runs;
    const std::size_t count = runs.size();
    const bool near = progress_.below(2) == 0;
    const std::size_t width = near ? 8 + progress_.below(std::max<std::size_t>(count / 3, 1)) : count;
    const std::size_t begin = progress_.below(count);
    std::size_t left = 1 + progress_.below(kMostTaken);
    std::vector<Id> times = progress_.times(runs);
    std::vector<std::size_t> places;
    for (std::size_t n = 0; n < std::min(width, count); ++n) {
      const std::size_t run = (begin + n) % count;
      if (times[at(runs[run])] > 1) places.push_back(run);
    }
    for (std::size_t n = places.size(); n > 1; --n) std::swap(places[n - 1], places[progress_.below(n)]);
    std::vector<char> taken(count, 0);
    for (const std::size_t run : places) {
      if (left == 0) break;
      if (times[at(runs[run])] < 2) continue;
      --times[at(runs[run])];
      taken[run] = 1;
      --left;
    }
    std::vector<Id>& trial = progress_.trial();
    trial.clear();
    for (std::size_t run = 0; run < count; ++run) {
      if (taken[run] == 0) trial.push_back(runs[run]);
    }
    if (trial.size() == count || progress_.measure() == nullptr) return false;
    progress_.accept();
    return true;
  }

  // Moves some runs to other places. Returns whether any was moved.
  bool move_some() {
    std::vector<Id>& trial = progress_.trial();
    trial = progress_.current().runs;
    const std::size_t count = trial.size();
    bool changed = false;
    for (std::size_t n = 1 + progress_.below(kMostMoved); n > 0; --n) {
      const std::size_t from = progress_.below(count);
      const std::size_t far = 1 + progress_.below(std::min(kFarthest, count));
      const bool earlier = progress_.below(2) == 0;
      const std::size_t to = earlier ? from - std::min(from, far) : std::min(from + far, count - 1);
      move(&trial, from, to);
      if (from == to) continue;
      if (progress_.is_sequence()) {
        changed = true;
      } else {
        move(&trial, to, from);
      }
    }
    if (!changed || progress_.measure() == nullptr) return false;
    progress_.accept();
    return true;
  }

  static void move(std::vector<Id>* runs, std::size_t from, std::size_t to) {
    const auto begin = runs->begin();
    const auto offset = [](std::size_t place) { return static_cast<std::ptrdiff_t>(place); };
    if (from < to) std::rotate(begin + offset(from), begin + offset(from) + 1, begin + offset(to) + 1);
    if (to < from) std::rotate(begin + offset(to), begin + offset(from), begin + offset(from) + 1);
  }

  Progress& progress_;
  Repair repair_;
};

}  // namespace

Found search(const Program& program, const std::vector<std::int64_t>& costs, const std::vector<char>& repeatable,
             std::span<const std::int64_t> runs, const Wanted& wanted, const schedule::Limits& limits) {
  Progress progress(program, costs, runs, wanted, limits);
  return Search(progress, repeatable).run();
}

}  // namespace edgemem::recompute
