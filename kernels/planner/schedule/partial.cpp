#include "planner/schedule/partial.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <string>

#include "planner/common/index.h"
#include "planner/common/splitmix64.h"

namespace edgemem::schedule {

void Partial::Members::insert(Id n) {
  if (has(n)) return;
  place[at(n)] = static_cast<Id>(items.size());
  items.push_back(n);
}

void Partial::Members::erase(Id n) {
  if (!has(n)) return;
  const Id moved = items.back();
  items[at(place[at(n)])] = moved;
  place[at(moved)] = place[at(n)];
  place[at(n)] = -1;
  items.pop_back();
}

void Partial::Members::clear() {
  for (const Id n : items) place[at(n)] = -1;
  items.clear();
}

Partial::Partial(const Problem& problem)
    : problem_(&problem), live_(problem.at_start), peak_(problem.at_start), opening_(problem.opening) {
  const Id count = problem.count();
  const Id classes = problem.classes();
  if (count == 0) peak_ += opening_;
  left_.resize(at(classes));
  every_.assign(at(classes), 0);
  taken_.assign(at(classes), 0);
  waits_.resize(at(count));
  for (std::uint64_t n = 0; n < at(count) + at(classes); ++n) {
    marks_.push_back({splitmix64(splitmix64(2 * n)), splitmix64(splitmix64(2 * n + 1))});
  }
  spoils_.assign(at(count), 0);
  effects_.resize(at(count));
  ready_.place.assign(at(count), -1);
  begun_.place.assign(at(classes), -1);
  waiting_.place.assign(at(count), -1);
  for (Id c = 0; c < classes; ++c) {
    const Ids readers = problem.readers[c];
    left_[at(c)] = static_cast<Id>(readers.size());
    for (const Id r : readers) every_[at(c)] ^= r;
    if (problem.guarded[at(c)] == 0) continue;
    // Those that may find this class in the way of another one.
    std::vector<Id> hindered;
    for (const Id r : readers) {
      const Ids over = problem.over[r];
      if (std::find(over.begin(), over.end(), c) != over.end() && over.back() != c) hindered.push_back(r);
    }
    for (const Id k : readers) {
      if (hindered.size() > 1 || (hindered.size() == 1 && hindered.front() != k)) spoils_[at(k)] = 1;
    }
  }
  last_ = every_;
  for (Id k = 0; k < count; ++k) {
    waits_[at(k)] = static_cast<Id>(problem.before[k].size());
    if (waits_[at(k)] == 0) ready_.insert(k);
  }
  for (const Id k : ready_.items) effects_[at(k)] = effect_of(k);
}

std::int64_t Partial::peak_after(const Effect& effect) const {
  const std::int64_t opening = opening_ > 0 ? opening_ + problem_->entry[at(effect.op)] : 0;
  return std::max(peak_, live_ + std::max(effect.rise, opening));
}

Key Partial::key_after(Id k) const {
  const Id taken = remembers(k);
  Key key = key_ ^ marks_[at(k)];
  for (const Id c : problem_->reads[k]) {
    if (left_[at(c)] == 1 && taken_[at(c)] != 0) key = key ^ marks_[at(problem_->count() + c)];
  }
  return taken >= 0 ? key ^ marks_[at(problem_->count() + taken)] : key;
}

// The class whose memory the first result of an operator takes if it runs now, or -1.
Id Partial::overwritten(Id k) const {
  for (const Id c : problem_->over[k]) {
    if (left_[at(c)] == 1) {  // the operator itself is the last reader
      return is_takable(c) ? c : -1;
    }
  }
  return -1;
}

bool Partial::is_marked(Id k) const {
  if (problem_->over[k].empty()) return false;
  const Id out = problem_->writes[k].front();
  return problem_->lingers[at(out)] != 0 || problem_->guarded[at(out)] != 0;
}

// The class to remember as one that took memory if ready operator k runs now, or -1.
Id Partial::remembers(Id k) const { return is_marked(k) && overwritten(k) >= 0 ? problem_->writes[k].front() : -1; }

bool Partial::may_regret(Id k) const { return is_marked(k) && overwritten(k) < 0; }

Effect Partial::effect_of(Id k) const {
  std::int64_t during = problem_->born[at(k)] + problem_->own[at(k)];
  std::int64_t change = problem_->staying[at(k)];
  const Id over = problem_->over[k].empty() ? -1 : overwritten(k);
  if (over >= 0) {
    during -= problem_->size[at(over)];
    if (problem_->lingers[at(problem_->writes[k].front())] != 0) change -= problem_->size[at(over)];
  }
  for (const Id c : problem_->reads[k]) {
    if (left_[at(c)] == 1 && problem_->kept[at(c)] == 0) change -= problem_->size[at(c)];
  }
  return {change, std::max(during, problem_->early[at(k)] + problem_->inside[at(k)]), k};
}

void Partial::run(Id k, std::vector<Id>& renewed) {
  const Effect effect = effects_[at(k)];
  const Id taken = remembers(k);
  key_ = key_after(k);
  peak_ = peak_after(effect);
  live_ += effect.change;
  opening_ = 0;
  ++done_;
  ready_.erase(k);
  if (taken >= 0 && !problem_->readers[taken].empty()) {
    taken_[at(taken)] = 1;
    begun_.insert(taken);
  }
  const std::size_t known = renewed.size();
  for (const Id c : problem_->reads[k]) {
    last_[at(c)] ^= k;
    if (--left_[at(c)] > 0) {
      begun_.insert(c);
      if (left_[at(c)] == 1 && ready_.has(last_[at(c)])) renewed.push_back(last_[at(c)]);
      continue;
    }
    begun_.erase(c);
    taken_[at(c)] = 0;
    left_[at(c)] = static_cast<Id>(problem_->readers[c].size());
    last_[at(c)] = every_[at(c)];
  }
  for (const Id then : problem_->after[k]) {
    if (--waits_[at(then)] > 0) {
      waiting_.insert(then);
      continue;
    }
    waiting_.erase(then);
    waits_[at(then)] = static_cast<Id>(problem_->before[then].size());
    ready_.insert(then);
    renewed.push_back(then);
  }
  for (std::size_t i = known; i < renewed.size(); ++i) effects_[at(renewed[i])] = effect_of(renewed[i]);
}

Saved Partial::save() const {
  Saved saved{live_, peak_, key_, done_, {}, {}};
  std::vector<Id>& window = saved.window;
  window.reserve(2 + 3 * begun_.items.size() + 2 * waiting_.items.size());
  window.push_back(static_cast<Id>(begun_.items.size()));
  window.push_back(static_cast<Id>(waiting_.items.size()));
  for (const Id c : begun_.items) {
    window.insert(window.end(), {taken_[at(c)] != 0 ? ~c : c, left_[at(c)], last_[at(c)]});
  }
  for (const Id k : waiting_.items) window.insert(window.end(), {k, waits_[at(k)]});
  saved.ready.reserve(ready_.items.size());
  for (const Id k : ready_.items) saved.ready.push_back(effects_[at(k)]);
  return saved;
}

// Back to the figures of the beginning, with nothing ready.
void Partial::forget() {
  for (const Id c : begun_.items) {
    left_[at(c)] = static_cast<Id>(problem_->readers[c].size());
    last_[at(c)] = every_[at(c)];
    taken_[at(c)] = 0;
  }
  for (const Id k : waiting_.items) waits_[at(k)] = static_cast<Id>(problem_->before[k].size());
  begun_.clear();
  waiting_.clear();
  ready_.clear();
}

void Partial::load(const Saved& saved) {
  forget();
  live_ = saved.live;
  peak_ = saved.peak;
  key_ = saved.key;
  done_ = saved.done;
  opening_ = done_ == 0 ? problem_->opening : 0;
  auto next = saved.window.begin();
  Id begun = *next++;
  Id waiting = *next++;
  for (; begun > 0; --begun) {
    const Id c = *next < 0 ? ~*next : *next;
    taken_[at(c)] = *next++ < 0 ? 1 : 0;
    left_[at(c)] = *next++;
    last_[at(c)] = *next++;
    begun_.insert(c);
  }
  for (; waiting > 0; --waiting) {
    const Id k = *next++;
    waits_[at(k)] = *next++;
    waiting_.insert(k);
  }
  for (const Effect& effect : saved.ready) {
    effects_[at(effect.op)] = effect;
    ready_.insert(effect.op);
  }
}

std::int64_t peak(const Problem& problem, std::span<const std::int64_t> order) {
  Partial partial(problem);
  std::vector<Id> renewed;
  for (const std::int64_t k : order) {
    if (k < 0 || k >= problem.count() || !partial.is_ready(static_cast<Id>(k))) {
      throw std::invalid_argument("operator " + std::to_string(k) + " cannot run at place " +
                                  std::to_string(partial.done()) + " of the order; use an order that is topological");
    }
    partial.run(static_cast<Id>(k), renewed);
    renewed.clear();
  }
  if (partial.done() != problem.count()) {
    throw std::invalid_argument("the order has " + std::to_string(partial.done()) + " of " +
                                std::to_string(problem.count()) + " operators; an order has all of them");
  }
  return partial.peak();
}

Numbers greedy(const Problem& problem) {
  Partial partial(problem);
  Numbers order;
  std::vector<Id> renewed = partial.ready();
  std::priority_queue<Effect, std::vector<Effect>, std::greater<>> queue;
  while (true) {
    for (const Id k : renewed) queue.push(partial.effect(k));
    renewed.clear();
    // Effects that are no longer true are still in the queue.
    while (!queue.empty() && (!partial.is_ready(queue.top().op) || queue.top() != partial.effect(queue.top().op))) {
      queue.pop();
    }
    if (queue.empty()) return order;
    order.push_back(queue.top().op);
    partial.run(queue.top().op, renewed);
  }
}

}  // namespace edgemem::schedule
