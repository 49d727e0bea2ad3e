#include "planner/offsets/related/conflicts.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "planner/offsets/related/groups.h"

namespace edgemem::related {
namespace {

// The nest of each record, by the record that lies within no other.
class Nests {
 public:
  Nests(std::size_t count, Column within) {
    if (within.empty()) return;
    root_.resize(count);
    std::iota(root_.begin(), root_.end(), Index{0});
    for (std::size_t k = 0; k < within.size(); k += 3) {
      root_[static_cast<std::size_t>(within[k])] = static_cast<Index>(within[k + 1]);
    }
    std::vector<Index> chain;
    for (std::size_t i = 0; i < count; ++i) {
      auto at = static_cast<Index>(i);
      for (; root_[at] != at; at = root_[at]) chain.push_back(at);
      for (; !chain.empty(); chain.pop_back()) root_[chain.back()] = at;
    }
  }

  bool are_one(Index a, Index b) const { return !root_.empty() && root_[a] == root_[b]; }

 private:
  std::vector<Index> root_;
};

// The overlaps of one record, noted so that each partner finds its distance at once.
class Partners {
 public:
  Partners(const Records& records, const Relations& relations)
      : rows_(overlaps(records, relations)),
        begin_(records.count() + 1),
        noted_(records.count(), kNone),
        end_(records.count()),
        low_(records.count()) {
    for (const Overlap& row : rows_) ++begin_[row.made + 1], ++begin_[row.input + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    list_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      list_[next[rows_[k].made]++] = static_cast<Index>(k);
      list_[next[rows_[k].input]++] = static_cast<Index>(k);
    }
  }

  void note(Index record) {
    for (std::size_t k = begin_[record]; k < begin_[record + 1]; ++k) {
      const Overlap& row = rows_[list_[k]];
      const Index other = row.made == record ? row.input : row.made;
      if (noted_[other] != record) {
        noted_[other] = record;
        end_[other] = low_[other] = kFree;
      }
      // Of offset[other] - offset[record].
      if (row.input == other) {
        end_[other] = std::min(end_[other], row.distance);
      } else {
        low_[other] = std::min(low_[other], row.distance);
      }
    }
  }

  // Narrows what is forbidden for offset[other] - offset[record], for the record noted last.
  void narrow(Index record, Index other, Value& begin, Value& end) const {
    if (noted_[other] != record) return;
    if (end_[other] != kFree) end = std::min(end, end_[other]);
    if (low_[other] != kFree) begin = std::max(begin, 1 - low_[other]);
  }

 private:
  static constexpr Value kFree = Value{1} << 62;

  std::vector<Overlap> rows_;
  std::vector<std::size_t> begin_;
  std::vector<Index> list_;
  std::vector<Index> noted_;
  std::vector<Value> end_, low_;
};

// Joins ranges that meet, of rows that are sorted.
template <class Row, class Same>
void join(std::vector<Row>& rows, std::size_t from, const Same& same) {
  std::size_t kept = from;
  for (std::size_t k = from; k < rows.size(); ++k) {
    if (kept > from && same(rows[kept - 1], rows[k]) && rows[k].begin <= rows[kept - 1].end) {
      rows[kept - 1].end = std::max(rows[kept - 1].end, rows[k].end);
    } else {
      rows[kept++] = rows[k];
    }
  }
  rows.resize(kept);
}

}  // namespace

std::vector<Pair> forbidden_pairs(const Records& records, const Relations& relations, Poll& poll, std::size_t most) {
  const Nests nests(records.count(), relations.within);
  Partners partners(records, relations);
  std::vector<Index> order;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] > 0) order.push_back(static_cast<Index>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return records.first[a] < records.first[b]; });
  std::vector<Pair> pairs;
  std::vector<Index> alive;
  for (const Index record : order) {
    poll.step();
    std::erase_if(alive, [&](Index other) { return records.last[other] < records.first[record]; });
    partners.note(record);
    const Value size = records.padded(record) / records.alignment;
    for (const Index other : alive) {
      if (nests.are_one(record, other)) continue;
      Value begin = 1 - records.padded(other) / records.alignment;
      Value end = size;
      partners.narrow(record, other, begin, end);
      if (begin < end) pairs.push_back({other, record, begin, end});
    }
    if (pairs.size() > most) throw std::length_error("too many pairs of records are alive together");
    alive.push_back(record);
  }
  return pairs;
}

Conflicts::Conflicts(const Records& records, const Groups& groups, const std::vector<Pair>& pairs)
    : step_(records.alignment),
      top_(groups.top),
      pin_(groups.pin),
      row_begin_(groups.count() + 1),
      range_begin_(groups.count() + 1) {
  const std::size_t count = groups.count();
  std::vector<std::vector<Range>> fixed(count);
  std::vector<std::size_t> next(count + 1);
  const auto each = [&](const auto& use) {
    for (const Pair& pair : pairs) {
      const Index x = groups.of[pair.a];
      const Index y = groups.of[pair.b];
      if (x == y) continue;
      const Value shift = groups.depth[pair.b] - groups.depth[pair.a];
      use(x, y, pair.begin + shift, pair.end + shift);
      use(y, x, 1 - pair.end - shift, 1 - pair.begin - shift);
    }
  };
  each([&](Index x, Index y, Value, Value) { next[x + 1] += groups.pin[y] < 0 ? 1 : 0; });
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<Row> all(next.back());
  std::vector<std::size_t> begins = next;
  each([&](Index x, Index y, Value begin, Value end) {
    if (groups.pin[y] < 0) {
      all[next[x]++] = {y, begin, end};
    } else {
      fixed[x].push_back({groups.pin[y] + begin, groups.pin[y] + end});
    }
  });
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (groups.of[i] == kNone) continue;
    const Value size = records.padded(i) / step_;
    for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
      const Value begin = records.reserved[k] / step_ - size + 1;
      const Value end = records.reserved[k + 1] / step_;
      fixed[groups.of[i]].push_back({begin - groups.depth[i], end - groups.depth[i]});
    }
  }
  for (std::size_t x = 0; x < count; ++x) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begins[x]);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(begins[x + 1]);
    std::sort(begin, end, [](const Row& a, const Row& b) {
      return a.other != b.other ? a.other < b.other : a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    rows_.insert(rows_.end(), begin, end);
    join(rows_, row_begin_[x], [](const Row& a, const Row& b) { return a.other == b.other; });
    row_begin_[x + 1] = rows_.size();
    std::sort(fixed[x].begin(), fixed[x].end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    ranges_.insert(ranges_.end(), fixed[x].begin(), fixed[x].end());
    join(ranges_, range_begin_[x], [](const Range&, const Range&) { return true; });
    range_begin_[x + 1] = ranges_.size();
  }
}

}  // namespace edgemem::related
