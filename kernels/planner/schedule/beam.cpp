#include "planner/schedule/beam.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/schedule/chain.h"

namespace edgemem::schedule {

namespace {

using Index = std::uint32_t;
constexpr Index kNone = std::numeric_limits<Index>::max();

// Finds the number that was put down under a key.
class KeyTable {
 public:
  // The number under this key, which is `number` if there was none.
  Index& find(const Key& key, Index number) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slot_of(key);
    if (slot.number == kNone) {
      slot = {key, number};
      ++used_;
    }
    return slot.number;
  }
  void clear() {
    if (used_ > 0) std::fill(slots_.begin(), slots_.end(), Slot{});
    used_ = 0;
  }

 private:
  struct Slot {
    Key key;
    Index number = kNone;
  };

  Slot& slot_of(const Key& key) {
    std::size_t at = key.low & (slots_.size() - 1);
    while (slots_[at].number != kNone && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number != kNone) slot_of(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

// The ways to all states: each step knows the one before it.
class Ways {
 public:
  Index add(Index before, Id op) {
    steps_.push_back({before, op});
    return static_cast<Index>(steps_.size() - 1);
  }
  Numbers order(Index last) const {
    Numbers made;
    for (; last != kNone; last = steps_[last].before) made.push_back(steps_[last].op);
    std::reverse(made.begin(), made.end());
    return made;
  }
  bool is_large() const { return steps_.size() >= enough_; }
  // Forgets the steps that lead to none of these, whose numbers it changes.
  void keep(const std::vector<Index*>& lasts) {
    std::vector<Index> moved(steps_.size(), kNone);
    for (const Index* last : lasts) {
      for (Index step = *last; step != kNone && moved[step] == kNone; step = steps_[step].before) moved[step] = 0;
    }
    Index kept = 0;
    for (Index step = 0; step < steps_.size(); ++step) {
      if (moved[step] == kNone) continue;
      const Step& old = steps_[step];  // what comes before it has a lower number
      steps_[kept] = {old.before == kNone ? kNone : moved[old.before], old.op};
      moved[step] = kept++;
    }
    steps_.resize(kept);
    for (Index* last : lasts) {
      if (*last != kNone) *last = moved[*last];
    }
    enough_ = std::max(kEnough, 2 * steps_.size());
  }

 private:
  struct Step {
    Index before;
    Id op;
  };
  static constexpr std::size_t kEnough = 1U << 20U;

  std::vector<Step> steps_;
  std::size_t enough_ = kEnough;
};

struct State {
  Saved saved;
  Index way = kNone;
};

// What is better goes on: the peak above the floor, then the bytes alive, then the rest decides ties.
using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t, Index, Id>;

struct Candidate {
  Rank rank;
  Key key;
};

class Search {
 public:
  Search(const Problem& problem, const Sweep& sweep, Budget& budget)
      : sweep_(sweep),
        budget_(budget),
        partial_(problem),
        chains_(problem),
        fronts_(static_cast<std::size_t>(problem.count()) + 1) {}

  Swept run() {
    if (partial_.peak() < sweep_.ceiling) arrive(kNone, 0);
    for (Front& front : fronts_) {
      if (&front == &fronts_.back()) break;
      if (front.states.empty()) continue;
      choose(front);
      if (!extend(front)) return {};
      front = {};
      if (ways_.is_large()) forget_ways();
    }
    Swept swept{{}, 0, !truncated_, true};
    for (const State& last : fronts_.back().states) {
      if (swept.order && last.saved.peak >= swept.peak) continue;
      swept.order = ways_.order(last.way);
      swept.peak = last.saved.peak;
    }
    return swept;
  }

 private:
  // The states with one number of operators that have run.
  struct Front {
    std::vector<State> states;
    KeyTable known;
  };

  Rank rank(std::int64_t peak, std::int64_t live, Index state, Id op) const {
    return {std::max(peak, sweep_.floor), live, peak, state, op};
  }

  // Leaves the best states of a front, in ascending order.
  void choose(Front& front) {
    std::vector<std::pair<Rank, Index>> ranks;
    for (Index i = 0; i < front.states.size(); ++i) {
      const Saved& saved = front.states[i].saved;
      ranks.emplace_back(rank(saved.peak, saved.live, i, 0), i);
    }
    std::sort(ranks.begin(), ranks.end());
    if (ranks.size() > sweep_.width) {
      ranks.resize(sweep_.width);
      truncated_ = true;
    }
    std::vector<State> chosen;
    for (const auto& [rank, i] : ranks) chosen.push_back(std::move(front.states[i]));
    front.states.swap(chosen);
  }

  // Puts what comes after the states of a front into later ones. Returns whether the budget sufficed.
  bool extend(const Front& front) {
    candidates_.clear();
    known_.clear();
    limit_.reset();
    for (Index i = 0; i < front.states.size(); ++i) {
      partial_.load(front.states[i].saved);
      for (const Id k : partial_.ready()) add_candidate(i, k);
      if (!budget_.spend(cost())) return false;
    }
    keep_best(kKept * sweep_.width);
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(std::get<3>(a.rank), std::get<4>(a.rank)) < std::tie(std::get<3>(b.rank), std::get<4>(b.rank));
    });
    for (const Candidate& candidate : candidates_) {
      const State& from = front.states[std::get<3>(candidate.rank)];
      partial_.load(from.saved);
      const std::int64_t room = this->room();
      todo_.clear();
      partial_.run(std::get<4>(candidate.rank), todo_);
      if (!arrive(ways_.add(from.way, std::get<4>(candidate.rank)), room)) return false;
    }
    return true;
  }

  void add_candidate(Index state, Id k) {
    const Effect& effect = partial_.effect(k);
    const std::int64_t peak = partial_.peak_after(effect);
    if (peak >= sweep_.ceiling) return;
    const Rank added = rank(peak, partial_.live() + effect.change, state, k);
    if (limit_ && added >= *limit_) return;
    const Key key = partial_.key_after(k);
    const auto number = static_cast<Index>(candidates_.size());
    const Index known = known_.find(key, number);
    if (known == number) {
      candidates_.push_back({added, key});
      if (candidates_.size() > 4 * kKept * sweep_.width) keep_best(kKept * sweep_.width);
    } else if (added < candidates_[known].rank) {
      candidates_[known].rank = added;
    }
  }

  void keep_best(std::size_t most) {
    if (candidates_.size() <= most) return;
    truncated_ = true;
    const auto less = [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; };
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(most), candidates_.end(),
                     less);
    limit_ = candidates_[most].rank;
    candidates_.resize(most);
    known_.clear();
    for (Index i = 0; i < candidates_.size(); ++i) known_.find(candidates_[i].key, i);
  }

  // Runs what may run at once, and puts the state into its front. Operators in `todo_` are new; for the others there
  // was no way to run at once in the room that there was. Returns whether the budget sufficed.
  bool arrive(Index way, std::int64_t tried) {
    std::int64_t looks = 0;
    while (partial_.done() > 0) {  // the first one also pays for inputs that nothing reads
      if (todo_.empty()) {
        if (room() <= tried) break;
        tried = room();
        todo_ = partial_.ready();
        continue;
      }
      const Id k = todo_.back();
      todo_.pop_back();
      if (!partial_.is_ready(k)) continue;
      ++looks;
      for (const Id free : chains_.find(partial_, k, room())) {
        partial_.run(free, todo_);
        way = ways_.add(way, free);
      }
    }
    Front& front = fronts_[static_cast<std::size_t>(partial_.done())];
    const auto number = static_cast<Index>(front.states.size());
    const Index known = front.known.find(partial_.key(), number);
    if (known == number) {
      front.states.push_back({partial_.save(), way});
    } else if (partial_.peak() < front.states[known].saved.peak) {
      front.states[known] = {partial_.save(), way};
    }
    return budget_.spend(looks + cost());
  }

  // Of loading or saving the state: its operators are copied, which takes less than to follow one of them.
  std::int64_t cost() const { return static_cast<std::int64_t>(1 + partial_.ready().size() / kCopied); }

  // How much more may be alive without counting for the peak.
  std::int64_t room() const { return std::max(partial_.peak(), sweep_.floor) - partial_.live(); }

  void forget_ways() {
    std::vector<Index*> lasts;
    for (Front& front : fronts_) {
      for (State& state : front.states) lasts.push_back(&state.way);
    }
    ways_.keep(lasts);
  }

  static constexpr std::size_t kCopied = 8;
  static constexpr std::size_t kKept = 2;  // candidates, for each state that goes on: some prove better than others

  Sweep sweep_;
  Budget& budget_;
  Partial partial_;
  Chains chains_;
  std::vector<Front> fronts_;
  Ways ways_;
  std::vector<Candidate> candidates_;
  KeyTable known_;
  std::optional<Rank> limit_;
  std::vector<Id> todo_;  // operators that may be free to run
  bool truncated_ = false;
};

constexpr std::size_t kNarrowest = 8;
constexpr std::size_t kWidthGrowth = 4;
constexpr std::size_t kWidest = 1U << 17U;
constexpr std::size_t kMostStates = 1U << 24U;  // times operators: what a front holds is some bytes for each

Stop stop_of(const Budget& budget) { return budget.out_of_time() ? Stop::kTime : Stop::kWork; }

}  // namespace

Swept sweep(const Problem& problem, const Sweep& sweep, Budget& budget) { return Search(problem, sweep, budget).run(); }

Solved beam(const Problem& problem, const Start& start, const Limits& limits) {
  Budget budget(limits.work, limits.seconds, static_cast<std::size_t>(problem.count()));
  budget.poll(limits.poll);
  Solved best{greedy(problem), start.bound, Stop::kBound, 0};
  std::int64_t reached = peak(problem, best.order);
  if (!start.order.empty() && peak(problem, start.order) <= reached) {
    best.order = start.order;
    reached = peak(problem, best.order);
  }
  const std::size_t widest =
      std::clamp(kMostStates / (static_cast<std::size_t>(problem.count()) + 1), kNarrowest, kWidest);
  for (std::size_t width = kNarrowest; reached > start.bound;) {
    Swept swept = sweep(problem, {width, reached - 1, reached}, budget);
    if (!swept.finished) {
      best.stopped = stop_of(budget);
      break;
    }
    if (swept.order) {
      best.order = std::move(*swept.order);
      reached = swept.peak;
    } else if (swept.exhaustive) {
      best.bound = reached;
      best.stopped = Stop::kProof;
      break;
    } else if (width == widest) {
      best.stopped = Stop::kWork;
      break;
    } else {
      width = std::min(kWidthGrowth * width, widest);
    }
  }
  best.work = budget.spent();
  return best;
}

}  // namespace edgemem::schedule
