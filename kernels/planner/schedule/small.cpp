#include "planner/schedule/small.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "planner/common/index.h"
#include "planner/common/splitmix64.h"

namespace edgemem::schedule {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

std::uint64_t bit(Id number) { return std::uint64_t{1} << static_cast<unsigned>(number); }

std::uint64_t set_of(Ids numbers) {
  std::uint64_t set = 0;
  for (const Id n : numbers) set |= bit(n);
  return set;
}

}  // namespace

SmallSearch::SmallSearch(const Problem& problem) : problem_(problem), spoils_(at(problem.count()), 0) {
  for (Id k = 0; k < problem.count(); ++k) {
    before_.push_back(set_of(problem.before[k]));
    after_.push_back(set_of(problem.after[k]));
  }
  int marks = 0;
  for (Id c = 0; c < problem.classes(); ++c) {
    readers_.push_back(set_of(problem.readers[c]));
    const bool is_marked = problem.lingers[at(c)] != 0 || problem.guarded[at(c)] != 0;
    const Id w = problem.writer[at(c)];
    const bool may_take = is_marked && w >= 0 && !problem.over[w].empty() && problem.writes[w].front() == c;
    marked_.push_back(may_take ? bit(marks++) : 0);
    if (problem.guarded[at(c)] == 0) continue;
    for (const Id r : problem.readers[c]) {
      const Ids over = problem.over[r];
      if (std::find(over.begin(), over.end(), c) == over.end() || over.back() == c) continue;
      for (const Id k : problem.readers[c]) spoils_[at(k)] |= k != r ? 1 : 0;
    }
  }
}

SmallSearch::Step SmallSearch::step(const State& state, Id op) const {
  const std::uint64_t others = ~(state.done | bit(op));
  bool takes = false;
  for (const Id c : problem_.over[op]) {
    if ((readers_[at(c)] & others) != 0) continue;
    takes = problem_.guarded[at(c)] == 0 || (state.took & marked_[at(c)]) != 0;
    break;
  }
  std::int64_t results = problem_.born[at(op)] + problem_.own[at(op)];
  std::int64_t change = problem_.staying[at(op)];
  std::uint64_t took = state.took;
  bool is_free = spoils_[at(op)] == 0;
  if (!problem_.over[op].empty()) {
    const Id result = problem_.writes[op].front();
    if (takes) {
      results -= problem_.size[at(result)];
      if (problem_.lingers[at(result)] != 0) change -= problem_.size[at(result)];
      took |= marked_[at(result)];
    } else if (marked_[at(result)] != 0) {
      is_free = false;  // later it might take some
    }
  }
  for (const Id c : problem_.reads[op]) {
    if ((readers_[at(c)] & others) != 0) continue;
    if (problem_.kept[at(c)] == 0) change -= problem_.size[at(c)];
    if (problem_.lingers[at(c)] == 0) took &= ~marked_[at(c)];
  }
  std::int64_t more = std::max(results, problem_.early[at(op)] + problem_.inside[at(op)]);
  if (state.done == 0 && problem_.opening > 0) {
    more = std::max(more, problem_.opening + problem_.entry[at(op)]);
    is_free = false;
  }
  return {state.live + more, state.live + change, took, is_free && change <= 0};
}

// The state of a set among the next ones; its cost is kUnknown if it is new.
SmallSearch::State& SmallSearch::slot(std::uint64_t done, std::uint64_t took) {
  if (4 * next_.size() >= 3 * table_.size()) grow();
  std::size_t place = splitmix64(done ^ splitmix64(took)) & (table_.size() - 1);
  for (; table_[place].round == round_; place = (place + 1) & (table_.size() - 1)) {
    State& known = next_[table_[place].state];
    if (known.done == done && known.took == took) return known;
  }
  table_[place] = {round_, static_cast<std::uint32_t>(next_.size())};
  next_.push_back({done, 0, took, 0, kUnknown, 0, 0});
  return next_.back();
}

void SmallSearch::grow() {
  table_.assign(std::max<std::size_t>(1024, 2 * table_.size()), Place{0, 0});
  round_ = 1;
  for (std::size_t k = 0; k < next_.size(); ++k) {
    std::size_t place = splitmix64(next_[k].done ^ splitmix64(next_[k].took)) & (table_.size() - 1);
    while (table_[place].round == round_) place = (place + 1) & (table_.size() - 1);
    table_[place] = {round_, static_cast<std::uint32_t>(k)};
  }
}

void SmallSearch::extend(const State& state, std::uint32_t number, Id op, const Step& step, std::int64_t cost) {
  State& made = slot(state.done | bit(op), step.took);
  if (made.cost == kUnknown) {
    made.ready = state.ready & ~bit(op);
    for (std::uint64_t waiting = after_[at(op)]; waiting != 0; waiting &= waiting - 1) {
      const auto then = static_cast<Id>(std::countr_zero(waiting));
      if ((before_[at(then)] & ~made.done) == 0) made.ready |= bit(then);
    }
    made.live = step.live;
  } else if (cost >= made.cost) {
    return;
  }
  made.cost = cost;
  made.from = number;
  made.op = static_cast<std::uint32_t>(op);
}

// Returns whether the budget sufficed.
bool SmallSearch::extend_all(const Price& price, Budget* budget) {
  next_.clear();
  ++round_;
  for (std::uint32_t number = 0; number < states_.size(); ++number) {
    const State& state = states_[number];
    const auto steps = static_cast<std::int64_t>(std::popcount(state.ready));
    if (!budget->spend(steps)) return false;
    bool is_done = false;
    for (std::uint64_t ready = state.ready; ready != 0 && !is_done; ready &= ready - 1) {
      const auto op = static_cast<Id>(std::countr_zero(ready));
      const Step next = step(state, op);
      is_done = next.is_free && next.during <= price.low;
      if (is_done) extend(state, number, op, next, state.cost);
    }
    for (std::uint64_t ready = state.ready; ready != 0 && !is_done; ready &= ready - 1) {
      const auto op = static_cast<Id>(std::countr_zero(ready));
      const Step next = step(state, op);
      if (next.during <= price.most) extend(state, number, op, next, state.cost + price.of(next.during));
    }
  }
  return true;
}

void SmallSearch::keep_best(std::size_t width, std::uint64_t seed) {
  const auto rank = [&](const State& s) { return splitmix64(s.done ^ splitmix64(s.took ^ seed)); };
  const auto is_better = [&](const State& a, const State& b) {
    if (a.cost != b.cost) return a.cost < b.cost;
    return a.live != b.live ? a.live < b.live : rank(a) < rank(b);
  };
  if (next_.size() > width) {
    std::nth_element(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(width), next_.end(), is_better);
    next_.resize(width);
  }
  std::sort(next_.begin(), next_.end(), [&](const State& a, const State& b) {
    return rank(a) < rank(b);  // of equally cheap ways to a set the first stays
  });
}

SmallSearch::Found SmallSearch::find(const Price& price, std::size_t width, std::uint64_t seed, Budget* budget) {
  std::uint64_t ready = 0;
  for (Id k = 0; k < problem_.count(); ++k) ready |= before_[at(k)] == 0 ? bit(k) : 0;
  states_.assign(1, State{0, ready, 0, problem_.at_start, 0, 0, 0});
  origins_.resize(at(problem_.count()));
  Found found{{}, 0, true};
  for (std::vector<Origin>& origins : origins_) {
    if (!extend_all(price, budget)) return {};
    if (next_.empty()) return found;
    found.is_best = found.is_best && next_.size() <= width;
    keep_best(width, seed);
    origins.clear();
    for (const State& s : next_) origins.push_back({s.from, static_cast<std::uint8_t>(s.op)});
    states_.swap(next_);
  }
  const auto best =
      std::min_element(states_.begin(), states_.end(), [](const State& a, const State& b) { return a.cost < b.cost; });
  found.cost = best->cost;
  auto number = static_cast<std::uint32_t>(best - states_.begin());
  for (std::size_t k = origins_.size(); k-- > 0;) {
    const Origin origin = origins_[k][number];
    found.order.push_back(origin.op);
    number = origin.from;
  }
  std::reverse(found.order.begin(), found.order.end());
  return found;
}

}  // namespace edgemem::schedule
