#include "planner/recompute/repair.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "planner/common/index.h"

namespace edgemem::recompute {
namespace {

constexpr std::size_t kTried = 16;  // copies that are tried at one step
constexpr std::size_t kSteps = 12;  // steps that are looked at before a repair gives up
constexpr double kFree = 1e-3;      // the cost of what costs nothing, for prices

}  // namespace

Repair::Repair(Progress& progress, const std::vector<char>& repeatable)
    : progress_(progress), repeatable_(repeatable), chains_(progress.program(), repeatable) {
  if (repeatable.size() != at(progress.program().problem.count())) {
    throw std::invalid_argument("repeatable: there is not one for each operator");
  }
}

bool Repair::run(double noise) {
  while (progress_.current().excess > 0) {
    if (!relieve(noise) || progress_.is_over()) break;
  }
  return progress_.current().excess <= 0;
}

// Takes the best step of a repair that is found. Returns false if there is none.
bool Repair::relieve(double noise) {
  chains_.look_at(progress_.current().runs, progress_.measured());
  const Numbers& steps = progress_.measured().steps();
  price_steps();
  order_.clear();
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (steps[step] > progress_.wanted().budget) order_.push_back(step);
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return steps[a] > steps[b]; });
  tried_.assign(progress_.measured().copies().size(), 0);
  for (std::size_t n = 0; n < std::min(kSteps, order_.size()); ++n) {
    if (relieve(order_[n], noise)) return true;
  }
  return false;
}

void Repair::price_steps() {
  const Numbers& steps = progress_.measured().steps();
  const std::int64_t budget = progress_.wanted().budget;
  over_.assign(1, 0);
  high_.assign(1, 0);
  for (const std::int64_t bytes : steps) {
    over_.push_back(over_.back() + static_cast<double>(std::max<std::int64_t>(0, bytes - budget)));
    high_.push_back(high_.back() + (bytes > budget ? 1 : 0));
  }
}

bool Repair::relieve(std::size_t step, double noise) {
  find_candidates(step);
  chosen_price_ = 0;
  for (const Candidate& candidate : candidates_) {
    tried_[at(candidate.copy)] = 1;
    try_candidate(candidate, step, noise);
    if (progress_.is_over()) break;
  }
  if (chosen_price_ <= 0) return false;
  progress_.trial() = chosen_;
  if (progress_.measure() == nullptr) return false;
  progress_.accept();
  return true;
}

// Copies that are idle at a step, those first that may relieve most for their cost.
void Repair::find_candidates(std::size_t step) {
  const Problem& problem = progress_.program().problem;
  const std::vector<Runs::Copy>& copies = progress_.measured().copies();
  candidates_.clear();
  for (std::size_t n = 0; n < copies.size(); ++n) {
    const Runs::Copy& copy = copies[n];
    const std::int64_t size = problem.size[at(copy.of)];
    const Id writer = problem.writer[at(copy.of)];
    if (tried_[n] != 0 || size == 0 || writer < 0 || repeatable_[at(writer)] == 0) continue;
    if (copy.made >= static_cast<Id>(step) || (copy.last <= static_cast<Id>(step) && copy.kept == 0)) continue;
    const Ids uses = chains_.uses(static_cast<Id>(n));
    const auto after = std::lower_bound(uses.begin(), uses.end(), static_cast<Id>(step));
    if (after != uses.end() && at(*after) == step) continue;
    const std::size_t from = after == uses.begin() ? at(copy.made + 1) : at(*(after - 1)) + 1;
    const std::size_t next = after == uses.end() ? progress_.current().runs.size() : at(*after);
    const double most = static_cast<double>(size) * (high_[next] - high_[from]);
    const double relieved = std::min(over_[next] - over_[from], most);
    const double cost = static_cast<double>(progress_.cost(writer)) + kFree;
    candidates_.push_back({static_cast<Id>(n), next, relieved / cost});
  }
  const std::size_t kept = std::min(kTried, candidates_.size());
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(candidates_.begin(), end, candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.price != b.price ? a.price > b.price : a.copy < b.copy;
  });
  candidates_.resize(kept);
}

void Repair::try_candidate(const Candidate& candidate, std::size_t step, double noise) {
  const State& current = progress_.current();
  const Numbers& steps = progress_.measured().steps();
  // The last place before the copy is read, and the first one after the step where there is room again.
  std::size_t early = step + 1;
  while (early < candidate.next && steps[early] > progress_.wanted().budget) ++early;
  places_.assign(1, candidate.next);
  if (early != candidate.next) places_.push_back(early);
  for (const std::size_t place : places_) {
    last_.clear();
    for (const Inputs inputs : {Inputs::kKeep, Inputs::kSpare, Inputs::kRemake}) {
      const auto chain = chains_.chain(candidate.copy, step, place, inputs);
      if (chain.empty() || std::equal(chain.begin(), chain.end(), last_.begin(), last_.end())) continue;
      last_.assign(chain.begin(), chain.end());
      const auto middle = current.runs.begin() + static_cast<std::ptrdiff_t>(place);
      std::vector<Id>& trial = progress_.trial();
      trial.assign(current.runs.begin(), middle);
      trial.insert(trial.end(), chain.begin(), chain.end());
      trial.insert(trial.end(), middle, current.runs.end());
      const State* const found = progress_.measure();
      if (found == nullptr || found->excess >= current.excess) continue;
      const double cost = static_cast<double>(std::max<std::int64_t>(0, found->cost - current.cost)) + kFree;
      double price = (current.excess - found->excess) / cost;
      if (noise > 0) price *= std::exp(noise * (static_cast<double>(progress_.below(2001)) / 1000 - 1));
      if (price <= chosen_price_) continue;
      chosen_price_ = price;
      chosen_ = found->runs;
    }
  }
}

}  // namespace edgemem::recompute
