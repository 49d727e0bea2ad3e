// The runs that a search is at, those that it tries, and the best that it met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/recompute/runs.h"
#include "planner/schedule/solved.h"

namespace edgemem::recompute {

struct Wanted {
  std::int64_t budget = 0;      // bytes
  std::int64_t most_cost = 0;   // of all runs
  std::int64_t least_cost = 0;  // no runs within the budget cost less: the search ends there
  bool improve = false;         // whether to go on once the budget is met, until the work is done
};

// A sequence, and what it comes to.
struct State {
  std::vector<Id> runs;
  double excess = 0;  // bytes above the budget, of all steps
  std::int64_t peak = 0;
  std::int64_t cost = 0;

  bool worse_than(const State& other) const {
    return excess != other.excess ? excess > other.excess : cost > other.cost;
  }
};

class Progress {
 public:
  // `costs`: of each operator. All must outlive the object. `limits.work`: runs that are counted.
  // Throws std::invalid_argument for runs that are none, and for costs that are not one for each operator.
  Progress(const Program& program, const std::vector<std::int64_t>& costs, std::span<const std::int64_t> runs,
           const Wanted& wanted, const schedule::Limits& limits);

  const Program& program() const { return program_; }
  const Wanted& wanted() const { return wanted_; }
  std::int64_t cost(Id op) const { return costs_[static_cast<std::size_t>(op)]; }
  const State& current() const { return current_; }
  const Runs& measured() const { return measured_; }
  const State& best() const { return best_; }      // fewest bytes above the budget, then least cost
  const State& lowest() const { return lowest_; }  // lowest peak, then least cost

  Budget& budget() { return budget_; }
  bool is_over() const { return budget_.out_of_work() || budget_.out_of_time(); }
  // A random number below a limit.
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  // What is tried next: fill it with runs.
  std::vector<Id>& trial() { return trial_.runs; }
  // Measures what is tried, without the runs whose results nothing reads if their operators run again. Returns null if
  // it is no sequence of runs, or costs too much.
  const State* measure();
  // Whether what is tried is a sequence of runs.
  bool is_sequence();
  // Goes on from what was measured last.
  void accept();
  // Goes back to what was current before.
  void go_back(const State& before);
  // How often each operator runs.
  std::vector<Id> times(const std::vector<Id>& runs) const;

 private:
  void weigh(const Runs& measured, State* state) const;
  bool measure_trial();
  std::size_t mark_useless();

  const Program& program_;
  const std::vector<std::int64_t>& costs_;
  const Wanted wanted_;
  Budget budget_;
  std::mt19937_64 random_;
  State current_;
  State trial_;
  State best_;
  State lowest_;
  Runs measured_;  // of current_
  Runs trial_measured_;
  std::vector<Id> readers_;    // of each copy
  std::vector<char> useless_;  // of each run
  std::vector<Id> spare_;
};

}  // namespace edgemem::recompute
