#include "planner/schedule/chain.h"

#include <algorithm>

#include "planner/common/index.h"

namespace edgemem::schedule {

const std::vector<Id>& Chains::find(const Partial& partial, Id k, std::int64_t room) {
  chain_.clear();
  change_ = 0;
  Id op = partial.effect(k).rise <= room && !partial.may_regret(k) && !partial.may_spoil(k) ? k : -1;
  if (op >= 0) change_ = partial.effect(k).change;
  while (op >= 0) {
    add(op);
    if (change_ <= 0) break;
    op = chain_.size() < kLongest ? next(partial, room) : -1;
  }
  for (const Id run : chain_) {
    for (const Id c : problem_->reads[run]) fewer_[at(c)] = 0;
  }
  if (op < 0) chain_.clear();
  return chain_;
}

Id Chains::next(const Partial& partial, std::int64_t room) {
  Id best = -1;
  Effect least{};
  for (const Id then : problem_->after[chain_.back()]) {
    const Ids before = problem_->before[then];
    const auto in_chain = [&](Id b) { return std::find(chain_.begin(), chain_.end(), b) != chain_.end(); };
    if (partial.waits(then) != std::count_if(before.begin(), before.end(), in_chain)) continue;
    if (partial.may_spoil(then) || partial.is_marked(then)) continue;
    const Effect found = effect(partial, then);
    if (change_ + found.rise > room || (best >= 0 && least <= found)) continue;
    best = then;
    least = found;
  }
  change_ += least.change;
  return best;
}

Effect Chains::effect(const Partial& partial, Id k) const {
  const auto is_last = [&](Id c) { return partial.left(c) - fewer_[at(c)] == 1; };
  std::int64_t during = problem_->born[at(k)] + problem_->own[at(k)];
  std::int64_t change = problem_->staying[at(k)];
  for (const Id c : problem_->over[k]) {
    if (!is_last(c)) continue;
    if (partial.is_takable(c)) during -= problem_->size[at(c)];
    break;
  }
  for (const Id c : problem_->reads[k]) {
    if (is_last(c) && problem_->kept[at(c)] == 0) change -= problem_->size[at(c)];
  }
  return {change, std::max(during, problem_->early[at(k)] + problem_->inside[at(k)]), k};
}

void Chains::add(Id k) {
  chain_.push_back(k);
  for (const Id c : problem_->reads[k]) ++fewer_[at(c)];
}

}  // namespace edgemem::schedule
