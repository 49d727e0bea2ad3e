#include "planner/offsets/related/bound.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "planner/offsets/related/cover.h"
#include "planner/offsets/related/shares.h"

namespace edgemem::related {
namespace {

// Operators at which a record counts.
struct Stretch {
  Value first;
  Value last;
  Index record;
};

// At most two a record: what it lies within, at any depth, is alive in one interval without gaps, because a record and
// its container are alive together at some operator.
std::vector<Stretch> stretches(const Records& records, Column within) {
  const std::size_t count = records.count();
  std::vector<Index> outer(count, kNone);
  for (std::size_t k = 0; k < within.size(); k += 3) {
    outer[static_cast<std::size_t>(within[k])] = static_cast<Index>(within[k + 1]);
  }
  // Of what is around each record: first and last operator. From the outside in, along the chains.
  std::vector<std::pair<Value, Value>> around(count, {0, -1});
  std::vector<char> known(count, 0);
  std::vector<Index> chain;
  for (std::size_t i = 0; i < count; ++i) {
    for (auto at = static_cast<Index>(i); known[at] == 0 && outer[at] != kNone; at = outer[at]) chain.push_back(at);
    for (; !chain.empty(); chain.pop_back()) {
      const Index inner = chain.back();
      const Index container = outer[inner];
      around[inner] = {records.first[container], records.last[container]};
      if (around[container].first <= around[container].second) {
        around[inner].first = std::min(around[inner].first, around[container].first);
        around[inner].second = std::max(around[inner].second, around[container].second);
      }
      known[inner] = 1;
    }
  }
  std::vector<Stretch> found;
  for (std::size_t i = 0; i < count; ++i) {
    if (records.size[i] == 0) continue;
    const auto record = static_cast<Index>(i);
    if (around[i].first > around[i].second) {
      found.push_back({records.first[i], records.last[i], record});
      continue;
    }
    const Value before = std::min(records.last[i], around[i].first - 1);
    const Value after = std::max(records.first[i], around[i].second + 1);
    if (records.first[i] <= before) found.push_back({records.first[i], before, record});
    if (after <= records.last[i]) found.push_back({after, records.last[i], record});
  }
  std::sort(found.begin(), found.end(), [](const Stretch& a, const Stretch& b) {
    return a.first != b.first ? a.first < b.first : a.record < b.record;
  });
  return found;
}

class Bound {
 public:
  Bound(const Records& records, const Relations& relations)
      : records_(records),
        rows_(overlaps(records, relations)),
        stretches_(stretches(records, relations.within)),
        alive_(records.count(), 0),
        cover_(records, relations),
        shares_(records, relations.within) {
    for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
      taken_.emplace(records.reserved[k], records.reserved[k + 1]);
    }
    for (Overlap& row : rows_) row.distance *= records.alignment;
    std::stable_sort(rows_.begin(), rows_.end(), [&](const Overlap& a, const Overlap& b) {
      return records_.first[a.made] < records_.first[b.made];
    });
  }

  Value run() {
    Value best = 0;
    for (std::size_t i = 0; i < records_.pinned.size(); ++i) {
      if (records_.is_pinned(i)) best = std::max(best, records_.pinned[i] + records_.size[i]);
    }
    // Nothing grows but where a stretch begins, or where an operator with overlaps is over.
    std::vector<Value> ops;
    ops.reserve(2 * stretches_.size());
    for (const Stretch& stretch : stretches_) {
      ops.push_back(stretch.first);
      ops.push_back(stretch.last + 1);
    }
    std::sort(ops.begin(), ops.end());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    std::size_t next = 0;
    for (const Value op : ops) {
      for (; !ends_.empty() && ends_.top().first < op; ends_.pop()) leave(ends_.top().second);
      for (; next < stretches_.size() && stretches_[next].first == op; ++next) enter(stretches_[next]);
      best = std::max(best, need_at(op));
    }
    return best;
  }

 private:
  using End = std::pair<Value, Index>;
  using Range = std::pair<Value, Value>;

  void enter(const Stretch& stretch) {
    const Index i = stretch.record;
    alive_[i] = 1;
    ends_.emplace(stretch.last, i);
    if (records_.is_pinned(i)) {
      taken_.insert(range(i));
      pinned_ends_.insert(range(i).second);
    } else {
      if (cover_.has(i)) {
        cover_.enter(i);
      } else {
        free_ += records_.padded(i);
      }
      paddings_.emplace(records_.padded(i) - records_.size[i], stretch.last);
    }
  }

  void leave(Index i) {
    alive_[i] = 0;
    if (records_.is_pinned(i)) {
      taken_.erase(taken_.find(range(i)));
      pinned_ends_.erase(pinned_ends_.find(range(i).second));
    } else if (cover_.has(i)) {
      cover_.leave(i);
    } else {
      free_ -= records_.padded(i);
    }
  }

  Range range(Index i) const { return {records_.pinned[i], records_.pinned[i] + records_.padded(i)}; }

  Value need_at(Value op) {
    for (; !paddings_.empty() && paddings_.top().second < op; paddings_.pop()) {
    }
    Value need = free_ + cover_.bytes() - shared_at(op);
    if (need <= 0) return 0;
    Value reached = 0;
    for (const auto& [low, high] : taken_) {
      if (low - reached >= need) break;
      need -= std::max<Value>(0, low - reached);
      reached = std::max(reached, high);
    }
    if (!pinned_ends_.empty() && reached + need <= *pinned_ends_.rbegin()) return 0;
    return reached + need - paddings_.top().first;
  }

  Value shared_at(Value op) {
    while (row_ < rows_.size() && records_.first[rows_[row_].made] < op) ++row_;
    here_.clear();
    mentioned_.clear();
    for (; row_ < rows_.size() && records_.first[rows_[row_].made] == op; ++row_) {
      const Overlap& row = rows_[row_];
      mentioned_.push_back(row.input);
      mentioned_.push_back(row.made);
      if (!here_.empty() && here_.back().made == row.made && here_.back().input == row.input) continue;
      if (alive_[row.input] == 0 || alive_[row.made] == 0) continue;
      if (records_.is_pinned(row.input) && records_.is_pinned(row.made)) continue;
      if (cover_.are_one(row.input, row.made)) continue;
      here_.push_back(row);
    }
    return shares_.most(op, here_, mentioned_);
  }

  const Records& records_;
  std::vector<Overlap> rows_;  // by operator and by (made, input, distance)
  std::vector<Stretch> stretches_;
  std::vector<char> alive_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::priority_queue<std::pair<Value, Value>> paddings_;  // of free records, with the last operator
  std::multiset<Range> taken_;                             // reserved, and by pinned records
  std::multiset<Value> pinned_ends_;
  std::vector<Overlap> here_;
  std::vector<Index> mentioned_;
  Cover cover_;
  Shares shares_;
  std::size_t row_ = 0;
  Value free_ = 0;
};

}  // namespace

Value lower_bound(const Records& records, const Relations& relations) { return Bound(records, relations).run(); }

}  // namespace edgemem::related
