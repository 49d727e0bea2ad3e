#include "planner/offsets/search/holes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace edgemem::offset_search {

namespace {

constexpr std::size_t kLargestGroup = 7;
constexpr std::size_t kTrustedGroup = 3;     // up to which a chance match is unlikely
constexpr std::size_t kMostTried = 100'000;  // subsets of one size, or kTriedAPiece for every piece if that is more
constexpr std::size_t kTriedAPiece = 30;
constexpr std::size_t kMostChanges = 100'000;
constexpr std::size_t kMostUnexplained = 200;  // changes of the slack in no small group
constexpr std::int64_t kTriedInAStep = 16;

struct Change {  // of the slack
  std::int32_t boundary;
  std::int64_t units;
};
using Changes = std::vector<Change>;

std::vector<std::int64_t> slack_of(const Part& part, const Ceiling& ceiling) {
  std::vector<std::int64_t> slack(part.load.size());
  for (std::size_t t = 0; t < slack.size(); ++t) slack[t] = ceiling.over(part.least_tail[t]) - part.load[t];
  return slack;
}

Changes inner_changes(const std::vector<std::int64_t>& slack) {
  Changes changes;
  for (std::size_t t = 1; t < slack.size(); ++t) {
    if (slack[t] != slack[t - 1]) changes.push_back({static_cast<std::int32_t>(t), slack[t] - slack[t - 1]});
  }
  return changes;
}

// Whether the changes of a group can be added up within int64.
bool sums_hold(const Ceiling& ceiling) {
  return ceiling.units <= std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(2 * kLargestGroup);
}

// Finds groups, the smallest first: sets of changes that cancel out and never need more slack than there is.
class Grouping {
 public:
  // `before`: the slack ahead of the first change; `bounded`: whether groups may not need more than is there.
  Grouping(Changes changes, std::int64_t before, bool bounded, const Part& part)
      : changes_(std::move(changes)),
        before_(before),
        bounded_(bounded),
        most_tried_(std::max(kMostTried, kTriedAPiece * static_cast<std::size_t>(part.count()))),
        used_(changes_.size(), 0) {}

  void run(std::size_t largest) {
    pairs();
    for (std::size_t size = 3; size <= largest; ++size) {
      const std::size_t half = size / 2;
      const auto left = static_cast<std::size_t>(std::count(used_.begin(), used_.end(), 0));
      if (subsets(left, size - half) > most_tried_ || (size > kTrustedGroup && left > kMostUnexplained)) return;
      const std::int64_t stop = tried_ + static_cast<std::int64_t>(most_tried_);
      table_.clear();
      tabulate(0, half, 0);
      std::sort(table_.begin(), table_.end(), [](const Subset& a, const Subset& b) { return a.sum < b.sum; });
      match(0, size - half, 0, stop);
    }
  }

  const std::vector<Changes>& groups() const { return groups_; }
  Changes rest() const {
    Changes found;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (used_[i] == 0) found.push_back(changes_[i]);
    }
    return found;
  }
  // The least slack that the groups leave, below zero where they need more than there is.
  std::int64_t least_left() const {
    std::int64_t left = before_;
    std::int64_t least = left;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (used_[i] == 0) least = std::min(least, left += changes_[i].units);
    }
    return least;
  }
  std::int64_t tried() const { return tried_; }

 private:
  using Index = std::uint32_t;
  struct Subset {
    std::int64_t sum;
    std::array<Index, kLargestGroup / 2> members;
    std::size_t size;
  };

  // The number of subsets of this size, or a number above what may be tried.
  std::size_t subsets(std::size_t count, std::size_t size) const {
    std::size_t product = count < size ? 0 : 1;
    for (std::size_t k = 0; k < size && product <= most_tried_; ++k) product = product * (count - k) / (k + 1);
    return product;
  }

  // Takes pairs: a fall ends the last rise of the same height.
  void pairs() {
    std::map<std::int64_t, std::vector<Index>> open;
    for (Index i = 0; i < changes_.size(); ++i) {
      if (changes_[i].units > 0) {
        open[changes_[i].units].push_back(i);
        continue;
      }
      const auto found = open.find(-changes_[i].units);
      if (found == open.end() || found->second.empty()) continue;
      take({found->second.back(), i});
      found->second.pop_back();
    }
  }

  void tabulate(Index from, std::size_t size, std::int64_t sum) {
    if (members_.size() == size) {
      ++tried_;
      Subset subset{sum, {}, size};
      std::copy(members_.begin(), members_.end(), subset.members.begin());
      table_.push_back(subset);
      return;
    }
    for (Index i = from; i < changes_.size(); ++i) {
      if (used_[i] != 0) continue;
      members_.push_back(i);
      tabulate(i + 1, size, sum + changes_[i].units);
      members_.pop_back();
    }
  }

  // Returns whether a group was taken; then subsets that begin like it need not be tried.
  bool match(Index from, std::size_t size, std::int64_t sum, std::int64_t stop) {
    if (members_.size() == size) return complete(sum, stop);
    for (Index i = from; i < changes_.size() && tried_ < stop; ++i) {
      if (used_[i] != 0) continue;
      members_.push_back(i);
      const bool taken = match(i + 1, size, sum + changes_[i].units, stop);
      members_.pop_back();
      if (taken && !members_.empty()) return true;
    }
    return false;
  }

  bool complete(std::int64_t sum, std::int64_t stop) {
    ++tried_;
    auto other = std::lower_bound(table_.begin(), table_.end(), -sum,
                                  [](const Subset& a, std::int64_t value) { return a.sum < value; });
    for (; other != table_.end() && other->sum == -sum && tried_ < stop; ++other) {
      ++tried_;
      std::vector<Index> group(members_);
      group.insert(group.end(), other->members.begin(),
                   other->members.begin() + static_cast<std::ptrdiff_t>(other->size));
      std::sort(group.begin(), group.end());
      if (std::adjacent_find(group.begin(), group.end()) == group.end() && can_take(group)) {
        take(group);
        return true;
      }
    }
    return false;
  }

  // Whether none of these changes is taken, the hole is never less than nothing, and every section has the slack.
  bool can_take(const std::vector<Index>& group) {
    std::int64_t room = 0;
    for (const Index i : group) {
      if (used_[i] != 0 || (room += changes_[i].units) < 0) return false;
    }
    if (!bounded_) return true;
    tried_ += static_cast<std::int64_t>(changes_.size());
    mark(group, 1);
    const bool enough = least_left() >= 0;
    mark(group, 0);
    return enough;
  }

  void mark(const std::vector<Index>& group, char used) {
    for (const Index i : group) used_[i] = used;
  }

  void take(const std::vector<Index>& group) {
    mark(group, 1);
    groups_.emplace_back();
    for (const Index i : group) groups_.back().push_back(changes_[i]);
  }

  Changes changes_;
  std::int64_t before_;
  bool bounded_;
  std::size_t most_tried_;
  std::vector<char> used_;
  std::vector<Subset> table_;
  std::vector<Index> members_;  // of the subset that is being tried
  std::vector<Changes> groups_;
  std::int64_t tried_ = 0;
};

}  // namespace

std::int64_t missing_room(const Part& part, Ceiling ceiling) {
  const std::vector<std::int64_t> slack = slack_of(part, ceiling);
  if (!sums_hold(ceiling)) return 0;
  // The changes at both ends of time depend on the ceiling, so they are left out.
  Changes changes = inner_changes(slack);
  if (changes.size() > kMostChanges) return 0;
  Grouping grouping(std::move(changes), slack.front(), false, part);
  grouping.run(kTrustedGroup);
  return std::max<std::int64_t>(0, -grouping.least_left());
}

std::optional<Holes> find_holes(const Part& part, Ceiling ceiling, Budget& budget) {
  const std::vector<std::int64_t> slack = slack_of(part, ceiling);
  Changes changes = inner_changes(slack);
  if (slack.front() != 0) changes.insert(changes.begin(), Change{0, slack.front()});
  if (slack.back() != 0) changes.push_back({part.sections(), -slack.back()});
  if (changes.size() > kMostChanges || !sums_hold(ceiling)) return std::nullopt;
  Grouping grouping(std::move(changes), 0, true, part);
  grouping.run(kLargestGroup);
  budget.spend(grouping.tried() / kTriedInAStep);
  std::vector<Changes> groups = grouping.groups();
  Changes rest = grouping.rest();
  if (rest.size() > kMostUnexplained) return std::nullopt;
  Holes holes;
  holes.unexplained = static_cast<std::int32_t>(rest.size());
  if (!rest.empty()) groups.push_back(std::move(rest));
  holes.ceiling = ceiling;
  holes.index_of.assign(slack.size() + 1, -1);
  for (const Changes& group : groups) {
    std::int64_t room = 0;
    const auto end = static_cast<std::int32_t>(holes.boundary.size() + group.size());
    for (const Change& change : group) {
      holes.index_of[static_cast<std::size_t>(change.boundary)] = static_cast<std::int32_t>(holes.boundary.size());
      holes.boundary.push_back(change.boundary);
      holes.group_end.push_back(end);
      holes.room.push_back(room += change.units);
    }
  }
  return holes;
}

}  // namespace edgemem::offset_search
