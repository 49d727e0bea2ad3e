#include "planner/offsets/related/shares.h"

#include <algorithm>

namespace edgemem::related {

Shares::Shares(const Records& records, Column within)
    : records_(records), is_mentioned_(records.count(), 0), bytes_(records.count(), 0) {
  if (!within.empty()) inside_.resize(records.count());
  for (std::size_t k = 0; k < within.size(); k += 3) {
    inside_[static_cast<std::size_t>(within[k + 1])].push_back({static_cast<Index>(within[k]), within[k + 2]});
  }
}

// Of a record, counted from its begin; ascending, disjoint.
void Shares::find_holes(Index record, Value op) {
  holes_.clear();
  if (inside_.empty()) return;
  const Value size = records_.padded(record);
  todo_.assign(inside_[record].begin(), inside_[record].end());
  while (!todo_.empty()) {
    const Inner inner = todo_.back();
    todo_.pop_back();
    const bool is_alive = records_.first[inner.record] <= op && op <= records_.last[inner.record];
    if (is_alive && is_mentioned_[inner.record] == 0) {
      holes_.push_back({inner.depth, std::min(size, inner.depth + records_.padded(inner.record))});
    }
    for (const Inner& deeper : inside_[inner.record]) todo_.push_back({deeper.record, inner.depth + deeper.depth});
  }
  std::sort(holes_.begin(), holes_.end(), [](const Hole& a, const Hole& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const Hole& hole : holes_) {
    if (kept > 0 && hole.begin <= holes_[kept - 1].end) {
      holes_[kept - 1].end = std::max(holes_[kept - 1].end, hole.end);
    } else {
      holes_[kept++] = hole;
    }
  }
  holes_.resize(kept);
}

Value Shares::without_holes(Value begin, Value end) const {
  Value left = std::max<Value>(0, end - begin);
  for (const Hole& hole : holes_) left -= std::max<Value>(0, std::min(end, hole.end) - std::max(begin, hole.begin));
  return left;
}

// Over the rows, of which those about one record come one after the other.
template <class Of>
Value Shares::sum(const std::vector<Overlap>& rows, bool is_input, const Of& of) {
  Value total = 0;
  const auto op = [&](const Overlap& row) { return records_.first[row.made]; };
  for (std::size_t k = 0; k < rows.size();) {
    const Index record = of(rows[k]);
    const Value size = records_.padded(record);
    find_holes(record, op(rows[k]));
    others_.clear();
    for (; k < rows.size() && of(rows[k]) == record; ++k) {
      const Overlap& row = rows[k];
      // An input's bytes are counted from its end on, so that a result can have those behind where it reaches.
      const Value reach = is_input ? size - records_.padded(row.made) + row.distance : row.distance;
      others_.push_back({std::max<Value>(0, reach), bytes_[is_input ? row.made : row.input]});
    }
    std::sort(others_.begin(), others_.end(), [](const Other& a, const Other& b) { return a.reach < b.reach; });
    const auto from = [&](Value x) { return is_input ? without_holes(0, size - x) : without_holes(x, size); };
    Value best = from(0);
    Value sum = 0;  // of others that reach below x, as far as it matters
    for (const Other& other : others_) {
      best = std::min(best, from(std::min(size, other.reach)) + sum);
      if (other.reach < size) sum = std::min(best, sum + std::min(other.bytes, best));
    }
    total += std::min(best, sum);
  }
  return total;
}

Value Shares::most(Value op, std::vector<Overlap>& rows, std::span<const Index> mentioned) {
  if (rows.empty()) return 0;
  for (const Index record : mentioned) is_mentioned_[record] = 1;
  for (const Overlap& row : rows) {
    for (const Index record : {row.input, row.made}) {
      find_holes(record, op);
      bytes_[record] = without_holes(0, records_.padded(record));
    }
  }
  const Value by_results = sum(rows, false, [](const Overlap& row) { return row.made; });
  std::stable_sort(rows.begin(), rows.end(), [](const Overlap& a, const Overlap& b) { return a.input < b.input; });
  const Value by_inputs = sum(rows, true, [](const Overlap& row) { return row.input; });
  for (const Index record : mentioned) is_mentioned_[record] = 0;
  return std::min(by_results, by_inputs);
}

}  // namespace edgemem::related
