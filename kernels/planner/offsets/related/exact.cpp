#include "planner/offsets/related/exact.h"

#include <algorithm>
#include <utility>

namespace edgemem::related {

std::vector<std::vector<Index>> components(const Conflicts& conflicts) {
  std::vector<std::vector<Index>> found;
  std::vector<char> seen(conflicts.count(), 0);
  for (Index start = 0; start < conflicts.count(); ++start) {
    if (seen[start] != 0 || conflicts.pin(start) >= 0) continue;
    seen[start] = 1;
    std::vector<Index> groups{start};
    for (std::size_t k = 0; k < groups.size(); ++k) {
      for (const Conflicts::Row& row : conflicts.rows(groups[k])) {
        if (seen[row.other] != 0 || conflicts.pin(row.other) >= 0) continue;
        seen[row.other] = 1;
        groups.push_back(row.other);
      }
    }
    found.push_back(std::move(groups));
  }
  return found;
}

Exact::Exact(const Conflicts& conflicts, std::vector<Index> groups)
    : conflicts_(conflicts), groups_(std::move(groups)) {
  std::vector<Index> number(conflicts.count(), kNone);
  for (Index k = 0; k < groups_.size(); ++k) number[groups_[k]] = k;
  patience_ = groups_.size() + 1;
  for (Index k = 0; k < groups_.size(); ++k) {
    patience_ += conflicts.ranges(groups_[k]).size();
    for (const Conflicts::Row& row : conflicts.rows(groups_[k])) {
      if (number[row.other] > k) ranges_.push_back({k, number[row.other], row.begin, row.end});
    }
  }
}

Exact::Answer Exact::fit(Value limit, Budget& budget, std::int64_t work) {
  budget_ = &budget;
  left_ = work;
  State state;
  state.low.assign(groups_.size(), 0);
  for (const Index group : groups_) {
    const Value room = limit - conflicts_.end(group, 0);
    if (room < 0) return Answer::kNone;
    state.high.push_back(room / conflicts_.step());
  }
  state.sides.assign(ranges_.size(), Side::kOpen);
  return search(std::move(state));
}

// Moves the ends of a group's bases out of what pins and reserved ranges take. Returns whether any base is left.
bool Exact::skip_fixed(State& state, Index group, bool& changed) const {
  Value& low = state.low[group];
  Value& high = state.high[group];
  const auto fixed = conflicts_.ranges(groups_[group]);
  for (const Conflicts::Range& range : fixed) {
    if (range.begin > low) break;
    if (range.end <= low) continue;
    low = range.end;
    changed = true;
  }
  for (std::size_t k = fixed.size(); k-- > 0 && fixed[k].end > high;) {
    if (fixed[k].begin > high) continue;
    high = fixed[k].begin - 1;
    changed = true;
  }
  return low <= high;
}

bool Exact::narrow(State& state, std::size_t k, bool& changed) const {
  const Range& range = ranges_[k];
  Value& low_x = state.low[range.x];
  Value& high_x = state.high[range.x];
  Value& low_y = state.low[range.y];
  Value& high_y = state.high[range.y];
  if (state.sides[k] == Side::kOpen) {
    const bool below = low_x - high_y < range.begin;
    const bool above = high_x - low_y >= range.end;
    if (below && above) return true;
    if (!below && !above) return false;
    state.sides[k] = below ? Side::kBelow : Side::kAbove;
    changed = true;
  }
  const auto raise = [&](Value& low, Value value) {
    changed = changed || value > low;
    low = std::max(low, value);
  };
  const auto lower = [&](Value& high, Value value) {
    changed = changed || value < high;
    high = std::min(high, value);
  };
  if (state.sides[k] == Side::kBelow) {
    raise(low_y, low_x - range.begin + 1);
    lower(high_x, high_y + range.begin - 1);
  } else {
    raise(low_x, low_y + range.end);
    lower(high_y, high_x - range.end);
  }
  return low_x <= high_x && low_y <= high_y;
}

// Returns false where no plan is left.
bool Exact::narrow(State& state) {
  std::size_t passes = 0;
  bool changed = true;
  while (changed) {
    changed = false;
    bool chosen = false;
    left_ -= static_cast<std::int64_t>(ranges_.size() / 64 + 1);
    if (!budget_->spend(static_cast<std::int64_t>(ranges_.size() / 64 + 1))) left_ = 0;
    if (left_ <= 0) return true;
    for (Index group = 0; group < groups_.size(); ++group) {
      if (!skip_fixed(state, group, changed)) return false;
    }
    for (std::size_t k = 0; k < ranges_.size(); ++k) {
      const Side before = state.sides[k];
      if (!narrow(state, k, changed)) return false;
      chosen = chosen || before != state.sides[k];
    }
    // With all sides as they are, bases that still move do so in a circle that never ends.
    passes = chosen ? 0 : passes + 1;
    if (passes > patience_) return false;
  }
  return true;
}

// A range that the groups meet at their lowest bases: the one that moves them most, whichever side is taken.
std::optional<std::size_t> Exact::met(const State& state) const {
  std::optional<std::size_t> worst;
  Value most = 0;
  for (std::size_t k = 0; k < ranges_.size(); ++k) {
    const Range& range = ranges_[k];
    const Value difference = state.low[range.x] - state.low[range.y];
    if (difference < range.begin || difference >= range.end) continue;
    const Value moves = std::min(difference - range.begin + 1, range.end - difference);
    if (moves <= most) continue;
    most = moves;
    worst = k;
  }
  return worst;
}

Exact::Answer Exact::search(State state) {
  if (!narrow(state)) return Answer::kNone;
  if (left_ <= 0) return Answer::kUnknown;
  const std::optional<std::size_t> range = met(state);
  if (!range) {
    found_ = state.low;
    return Answer::kFound;
  }
  const Range& at = ranges_[*range];
  const Value difference = state.low[at.x] - state.low[at.y];
  const bool above_first = at.end - difference <= difference - at.begin + 1;
  Answer answer = Answer::kNone;
  for (const bool above : {above_first, !above_first}) {
    State next = state;
    next.sides[*range] = above ? Side::kAbove : Side::kBelow;
    answer = search(std::move(next));
    if (answer != Answer::kNone) return answer;
  }
  return answer;
}

}  // namespace edgemem::related
