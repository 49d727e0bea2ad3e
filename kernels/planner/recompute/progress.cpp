#include "planner/recompute/progress.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "planner/common/index.h"

namespace edgemem::recompute {
namespace {

// So that the costs of a million runs add up.
constexpr std::int64_t kMostCost = std::numeric_limits<std::int64_t>::max() >> 20;

}  // namespace

Progress::Progress(const Program& program, const std::vector<std::int64_t>& costs, std::span<const std::int64_t> runs,
                   const Wanted& wanted, const schedule::Limits& limits)
    : program_(program),
      costs_(costs),
      wanted_(wanted),
      budget_(limits.work, limits.seconds, runs.size()),
      random_(limits.seed),
      measured_(program),
      trial_measured_(program) {
  budget_.poll(limits.poll);
  if (costs.size() != at(program.problem.count())) {
    throw std::invalid_argument("costs: there is not one for each operator");
  }
  for (const std::int64_t cost : costs) {
    if (cost < 0 || cost > kMostCost) throw std::invalid_argument("costs: a cost is negative or too large");
  }
  current_.runs = checked_runs(program, runs);
  if (!measured_.measure(current_.runs)) {
    throw std::invalid_argument("runs: an operator never runs, or runs before one that it waits for");
  }
  weigh(measured_, &current_);
  best_ = current_;
  lowest_ = current_;
}

void Progress::weigh(const Runs& measured, State* state) const {
  state->excess = 0;
  for (const std::int64_t bytes : measured.steps()) {
    if (bytes > wanted_.budget) state->excess += static_cast<double>(bytes - wanted_.budget);
  }
  state->peak = measured.peak();
  // The peak may be before or after all steps.
  if (state->excess <= 0 && state->peak > wanted_.budget) {
    state->excess = static_cast<double>(state->peak - wanted_.budget);
  }
  state->cost = 0;
  for (const Id op : state->runs) state->cost += cost(op);
}

bool Progress::is_sequence() {
  budget_.spend(static_cast<std::int64_t>(trial_.runs.size()));
  return trial_measured_.measure(trial_.runs);
}

bool Progress::measure_trial() {
  if (!is_sequence()) return false;
  weigh(trial_measured_, &trial_);
  return trial_.cost <= wanted_.most_cost;
}

const State* Progress::measure() {
  if (!measure_trial()) return nullptr;
  if (mark_useless() == 0) return &trial_;
  spare_ = trial_.runs;
  std::size_t kept = 0;
  for (std::size_t run = 0; run < spare_.size(); ++run) {
    if (useless_[run] == 0) trial_.runs[kept++] = spare_[run];
  }
  trial_.runs.resize(kept);
  if (measure_trial()) return &trial_;
  trial_.runs = spare_;  // an operator waits for one of them, though it reads nothing of it
  return measure_trial() ? &trial_ : nullptr;
}

// Marks the runs of what was measured that are not needed. Returns how many there are.
std::size_t Progress::mark_useless() {
  std::vector<Id> left = times(trial_.runs);
  std::size_t found = 0;
  useless_.assign(trial_.runs.size(), 0);
  readers_.clear();
  for (const Runs::Copy& copy : trial_measured_.copies()) readers_.push_back(copy.readers);
  for (std::size_t run = trial_.runs.size(); run-- > 0;) {
    const Id op = trial_.runs[run];
    if (left[at(op)] < 2 || trial_measured_.viewed(run) > 0) continue;
    const std::size_t first = at(trial_measured_.first_copy(run));
    bool needed = false;
    for (std::size_t n = first; n < first + program_.problem.writes[op].size(); ++n) {
      needed = needed || readers_[n] > 0 || trial_measured_.copies()[n].kept != 0;
    }
    if (needed) continue;
    useless_[run] = 1;
    ++found;
    --left[at(op)];
    for (const Id copy : trial_measured_.read(run)) --readers_[at(copy)];
  }
  return found;
}

void Progress::accept() {
  std::swap(current_, trial_);
  std::swap(measured_, trial_measured_);
  if (best_.worse_than(current_)) best_ = current_;
  if (current_.peak < lowest_.peak || (current_.peak == lowest_.peak && current_.cost < lowest_.cost)) {
    lowest_ = current_;
  }
}

void Progress::go_back(const State& before) {
  current_ = before;
  budget_.spend(static_cast<std::int64_t>(current_.runs.size()));
  (void)measured_.measure(current_.runs);
}

std::vector<Id> Progress::times(const std::vector<Id>& runs) const {
  std::vector<Id> found(at(program_.problem.count()), 0);
  for (const Id op : runs) ++found[at(op)];
  return found;
}

}  // namespace edgemem::recompute
