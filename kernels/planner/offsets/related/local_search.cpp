#include "planner/offsets/related/local_search.h"

#include <algorithm>
#include <utility>

#include "planner/common/splitmix64.h"

namespace edgemem::related {

std::size_t Random::below(std::size_t limit) {
  state_ = splitmix64(state_);
  return static_cast<std::size_t>(((state_ >> 32U) * limit) >> 32U);
}

LocalSearch::LocalSearch(const Conflicts& conflicts, std::uint64_t seed)
    : conflicts_(conflicts), random_(seed), plan_(conflicts) {}

void LocalSearch::keep() {
  top_ = plan_.top();
  highest_.clear();
  for (const Index group : plan_.order()) {
    if (plan_.end(group) == top_) highest_.push_back(group);
  }
  if (top_ >= size_) return;
  size_ = top_;
  bases_ = plan_.bases();
  order_ = plan_.order();
}

void LocalSearch::begin(const std::vector<Order>& starts, Budget& budget, Value target) {
  starts_ = starts;
  std::int64_t counted = plan_.steps();
  for (const Order& order : starts_) {
    plan_.place(order);
    keep();
    const std::int64_t steps = plan_.steps();
    if (!budget.spend(steps - counted + 1) || size_ <= target) break;
    counted = steps;
  }
}

Index LocalSearch::conflicting(Index block) {
  const std::vector<Index>& groups = blocks_[block];
  const auto rows = conflicts_.rows(groups[random_.below(groups.size())]);
  if (rows.empty()) return static_cast<Index>(random_.below(blocks_.size()));
  return block_of_[rows[random_.below(rows.size())].other];
}

// To the place of another block, which moves towards the place that is left.
void LocalSearch::move(Index moved, Index to) {
  if (begin_of(moved) < begin_of(to)) {
    plan_.rotate(begin_of(moved), end_of(moved), end_of(to));
  } else {
    plan_.rotate(begin_of(to), begin_of(moved), end_of(moved));
  }
}

void LocalSearch::exchange(Index a, Index b) {
  if (begin_of(a) > begin_of(b)) std::swap(a, b);
  const std::size_t between = begin_of(b) - end_of(a);
  plan_.rotate(begin_of(a), begin_of(b), end_of(b));  // b, a, what is between
  plan_.rotate(begin_of(a), end_of(a), end_of(a) + between);
}

bool LocalSearch::change(Value limit) {
  auto moved = static_cast<Index>(random_.below(blocks_.size()));
  const std::size_t kind = random_.below(3);
  if (kind < 2 && !highest_.empty()) {
    moved = block_of_[highest_[random_.below(highest_.size())]];
    if (kind == 1) moved = conflicting(moved);
    if (random_.below(3) == 0) moved = conflicting(moved);
  }
  const Index to = random_.below(4) != 0 ? conflicting(moved) : static_cast<Index>(random_.below(blocks_.size()));
  plan_.begin();
  const bool exchanged = random_.below(4) == 0;
  if (to == moved) return true;
  if (exchanged) {
    exchange(moved, to);
  } else {
    move(moved, to);
  }
  return plan_.settle(limit);
}

// Places the groups in this order, but for those of each block, which come together where the first of them is.
void LocalSearch::place(Order order) {
  std::vector<std::size_t> first(blocks_.size(), order.size());
  for (std::size_t k = order.size(); k-- > 0;) first[block_of_[order[k]]] = k;
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return first[block_of_[a]] < first[block_of_[b]]; });
  for (std::vector<Index>& block : blocks_) block.clear();
  for (const Index group : order) blocks_[block_of_[group]].push_back(group);
  plan_.place(std::move(order));
  keep();
}

void LocalSearch::run(const std::vector<Index>& block_of, Budget& budget, Value target, std::int64_t work, int rounds) {
  if (order_.size() < 2 || size_ <= target) return;
  // Blocks are numbered as they come, so that none is empty.
  std::vector<Index> number(block_of.size(), kNone);
  block_of_.assign(block_of.size(), kNone);
  Index count = 0;
  for (const Index group : order_) {
    Index& block = number[block_of[group]];
    if (block == kNone) block = count++;
    block_of_[group] = block;
  }
  blocks_.resize(count);
  std::int64_t counted = plan_.steps();
  place(order_);
  const std::size_t patience = 400 + 4 * blocks_.size();
  std::size_t stale = 0;
  while (size_ > target) {
    const Value before = top_;
    if (change(top_)) {
      keep();
    } else {
      plan_.undo();
    }
    stale = top_ < before ? 0 : stale + 1;
    const std::int64_t steps = plan_.steps();
    work -= steps - counted + 1;
    if (!budget.spend(steps - counted + 1) || work <= 0) return;
    counted = steps;
    if (stale <= patience) continue;
    if (--rounds <= 0) return;
    stale = 0;
    Order order = starts_[random_.below(starts_.size())];
    for (std::size_t k = 3 + random_.below(6); k > 0; --k) {
      std::swap(order[random_.below(order.size())], order[random_.below(order.size())]);
    }
    place(std::move(order));
  }
}

}  // namespace edgemem::related
