#include "planner/offsets/related/first_fit.h"

#include <algorithm>
#include <utility>

namespace edgemem::related {

FirstFit::FirstFit(const Conflicts& conflicts)
    : conflicts_(conflicts),
      position_(conflicts.count(), 0),
      base_(conflicts.count(), 0),
      is_marked_(conflicts.count(), 0) {
  for (Index group = 0; group < conflicts.count(); ++group) {
    if (conflicts.pin(group) >= 0) base_[group] = conflicts.pin(group);
  }
}

void FirstFit::place(std::vector<Index> order) {
  order_ = std::move(order);
  for (std::size_t k = 0; k < order_.size(); ++k) position_[order_[k]] = k;
  for (const Index group : order_) base_[group] = lowest(group);
  begin();
}

Value FirstFit::lowest(Index group) {
  const std::size_t position = position_[group];
  const auto rows = conflicts_.rows(group);
  const auto fixed = conflicts_.ranges(group);
  rows_seen_ += kRowsPerStep + static_cast<std::int64_t>(rows.size() + fixed.size());
  taken_.assign(fixed.begin(), fixed.end());
  for (const Conflicts::Row& row : rows) {
    if (position_[row.other] >= position) continue;
    const Value base = base_[row.other];
    if (base + row.end > 0) taken_.push_back({base + row.begin, base + row.end});
  }
  std::sort(taken_.begin(), taken_.end(),
            [](const Conflicts::Range& a, const Conflicts::Range& b) { return a.begin < b.begin; });
  Value base = 0;
  for (const Conflicts::Range& range : taken_) {
    if (range.begin > base) break;
    base = std::max(base, range.end);
  }
  return base;
}

void FirstFit::begin() {
  changes_.clear();
  rotations_.clear();
  lowest_marked_ = order_.size();
}

void FirstFit::turn(const Rotation& rotation) {
  const auto at = [&](std::size_t k) { return order_.begin() + static_cast<std::ptrdiff_t>(k); };
  std::rotate(at(rotation.low), at(rotation.middle), at(rotation.high));
  for (std::size_t k = rotation.low; k < rotation.high; ++k) position_[order_[k]] = k;
}

void FirstFit::mark(Index group) {
  if (is_marked_[group] != 0) return;
  is_marked_[group] = 1;
  ++marked_;
}

void FirstFit::rotate(std::size_t low, std::size_t middle, std::size_t high) {
  if (low >= middle || middle >= high) return;
  // Pairs of which one is in each part change sides.
  const bool first_is_smaller = middle - low <= high - middle;
  const std::size_t begin = first_is_smaller ? low : middle;
  const std::size_t end = first_is_smaller ? middle : high;
  for (std::size_t k = begin; k < end; ++k) {
    const Index group = order_[k];
    const auto rows = conflicts_.rows(group);
    rows_seen_ += static_cast<std::int64_t>(rows.size());
    for (const Conflicts::Row& row : rows) {
      const std::size_t position = position_[row.other];
      const bool is_beside =
          first_is_smaller ? middle <= position && position < high : low <= position && position < middle;
      if (!is_beside) continue;
      mark(group);
      mark(row.other);
    }
  }
  rotations_.push_back({low, middle, high});
  turn(rotations_.back());
  lowest_marked_ = std::min(lowest_marked_, low);
}

bool FirstFit::settle(Value limit) {
  for (std::size_t k = lowest_marked_; marked_ > 0 && k < order_.size(); ++k) {
    const Index group = order_[k];
    if (is_marked_[group] == 0) continue;
    is_marked_[group] = 0;
    --marked_;
    const Value base = lowest(group);
    if (base == base_[group]) continue;
    changes_.push_back({group, base_[group]});
    base_[group] = base;
    if (conflicts_.end(group, base) > limit) {
      while (marked_ > 0 && ++k < order_.size()) {
        marked_ -= static_cast<std::size_t>(is_marked_[order_[k]]);
        is_marked_[order_[k]] = 0;
      }
      return false;
    }
    for (const Conflicts::Row& row : conflicts_.rows(group)) {
      if (position_[row.other] > k) mark(row.other);
    }
  }
  return true;
}

void FirstFit::undo() {
  for (std::size_t k = changes_.size(); k-- > 0;) base_[changes_[k].group] = changes_[k].base;
  for (std::size_t k = rotations_.size(); k-- > 0;) {
    const auto [low, middle, high] = rotations_[k];
    turn({low, low + (high - middle), high});
  }
  begin();
}

Value FirstFit::top() const {
  Value top = 0;
  for (Index group = 0; group < conflicts_.count(); ++group) top = std::max(top, end(group));
  return top;
}

}  // namespace edgemem::related
