// The bound of `bounds.h`. Why it holds: at one operator, let the records alive have their padded intervals. Those of
// one nest are where their distances say, and cover so many bytes together. Of two nests only an input and a result of
// an overlap intersect, and no byte is in three of them, so that all cover the sum of what the nests do less what the
// pairs have in common, which `common_bytes.h` limits. A pair of which one lies inside a record that is alive, and in
// no pair with the other, is disjoint. The cover ends at the arena's end at the latest, or above that by the padding of
// the topmost one.
#include <algorithm>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "proof/bounds.h"
#include "proof/common_bytes.h"
#include "proof/nesting.h"
#include "proof/nests.h"
#include "proof/room.h"

namespace edgemem::proof {
namespace {

// The free records that are alive and inside no other that is, by their numbers in `Nesting`. Each node holds how often
// the whole of it is covered (without what is noted further up), the least cover below it, and the padded sizes (but of
// those that `Nests` counts) and the largest padding of those alive with that cover. The number 0 is never covered, so
// the root is about those not covered.
class Uncovered {
 public:
  explicit Uncovered(std::size_t count)
      : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))), nodes_(2 * leaves_) {}

  Value padded() const { return nodes_[1].padded; }
  Value padding() const { return nodes_[1].padding; }

  void set(Index number, Value padded, Value padding) {
    std::size_t at = number + leaves_;
    nodes_[at].padded = padded;
    nodes_[at].padding = padding;
    while (at /= 2) count(at);
  }

  // One cover more or less over the numbers [begin, end).
  void cover(Index begin, Index end, int times) {
    if (begin >= end) return;
    std::size_t low = begin + leaves_;
    std::size_t high = end + leaves_;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) change(low++, times);
      if (high % 2 == 1) change(--high, times);
    }
    for (std::size_t at = begin + leaves_; at /= 2;) count(at);
    for (std::size_t at = end - 1 + leaves_; at /= 2;) count(at);
  }

  // Calls `use` with the numbers in [begin, end) that are not covered, ascending. O(log n) each.
  template <typename Use>
  void each_uncovered(Index begin, Index end, const Use& use) const {
    if (begin < end) walk(1, 0, leaves_, begin, end, use);
  }

  bool is_covered(Index number) const {
    for (std::size_t at = number + leaves_; at > 0; at /= 2) {
      if (nodes_[at].covers > 0) return true;
    }
    return false;
  }

 private:
  struct Node {
    int covers = 0;
    int least = 0;
    Value padded = 0;
    Value padding = 0;
  };

  template <typename Use>
  void walk(std::size_t at, std::size_t low, std::size_t high, Index begin, Index end, const Use& use) const {
    if (high <= begin || end <= low || nodes_[at].least > 0) return;
    if (at >= leaves_) {
      use(static_cast<Index>(low));
      return;
    }
    const std::size_t middle = low + (high - low) / 2;
    walk(2 * at, low, middle, begin, end, use);
    walk(2 * at + 1, middle, high, begin, end, use);
  }

  void change(std::size_t at, int times) {
    nodes_[at].covers += times;
    nodes_[at].least += times;
  }

  void count(std::size_t at) {
    const Node& a = nodes_[2 * at];
    const Node& b = nodes_[2 * at + 1];
    Node& node = nodes_[at];
    const int least = std::min(a.least, b.least);
    node.least = node.covers + least;
    node.padded = (a.least == least ? a.padded : 0) + (b.least == least ? b.padded : 0);
    node.padding = std::max(a.least == least ? a.padding : 0, b.least == least ? b.padding : 0);
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;
};

class Bound {
 public:
  explicit Bound(const Records& records)
      : records_(records),
        nesting_(records.count(), withins(records)),
        number_(nesting_.flat() ? records.count() : 0),
        free_(records.count()),
        nests_(records, nesting_),
        room_(cuts(records)),
        taken_(records.pinned.size()),
        alive_pinned_(records.pinned.size()),
        pinned_(nesting_.flat() || records.pinned.empty() ? 0 : records.count(), kNone),
        rows_(overlaps(records)),
        common_(records) {
    for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
      room_.take(records.reserved[k], records.reserved[k + 1]);
    }
    for (std::size_t i = 0; i < records.pinned.size(); ++i) {
      if (records.pinned[i] < 0 || records.size[i] == 0) continue;
      best_ = std::max(best_, records.pinned[i] + records.size[i]);
      if (!nesting_.flat()) pinned_[nesting_.enter(static_cast<Index>(i))] = static_cast<Index>(i);
    }
    const auto key = [&](const Overlap& row) {
      return std::tuple(records_.first[row.made], row.made, row.input, row.distance);
    };
    std::sort(rows_.begin(), rows_.end(), [&](const Overlap& a, const Overlap& b) { return key(a) < key(b); });
  }

  Value run() {
    const Order births = order_by(records_.first, records_);
    if (nesting_.flat()) {
      for (std::size_t k = 0; k < births.size(); ++k) number_[births[k].second] = static_cast<Index>(k);
    }
    const Order deaths = order_by(records_.last, records_);
    std::size_t born = 0;
    std::size_t dead = 0;
    while (dead < deaths.size()) {
      // The profile changes where records begin, and behind those that end.
      if (born < births.size() && births[born].first <= deaths[dead].first) {
        const Value op = births[born].first;
        for (; born < births.size() && births[born].first == op; ++born) begin(births[born].second);
        judge(overlapping(op));
        continue;
      }
      const Value op = deaths[dead].first;
      for (; dead < deaths.size() && deaths[dead].first == op; ++dead) end(deaths[dead].second);
      if (born < births.size() && births[born].first == op + 1) continue;
      judge(0);
    }
    return best_;
  }

 private:
  // Of a record among all: as in `Nesting`, or where no record is inside another by where they begin, so that those
  // alive together are close together.
  Index number(Index record) const { return nesting_.flat() ? number_[record] : nesting_.enter(record); }

  static std::vector<Value> cuts(const Records& records) {
    Value total = 0;
    Value above = 0;
    std::vector<Value> ends(records.reserved.begin(), records.reserved.end());
    for (std::size_t i = 0; i < records.count(); ++i) {
      total += records.padded(i);
      if (!records.is_pinned(i) || records.size[i] == 0) continue;
      ends.push_back(records.pinned[i]);
      ends.push_back(records.pinned[i] + records.padded(i));
    }
    for (const Value end : ends) above = std::max(above, end);
    if (above > kLargest - total) throw std::invalid_argument("pins, ranges and sizes are beyond what int64 holds");
    return ends;
  }

  void begin(Index record) {
    const Value padded = records_.padded(record);
    if (records_.is_pinned(record)) {
      alive_pinned_[record] = true;
      follow(record);
    } else {
      const bool in_nest = nests_.has(record);
      if (in_nest) nests_.begin(record);
      free_.set(number(record), in_nest ? 0 : padded, padded - records_.size[record]);
    }
    cover(record, 1);
  }

  void end(Index record) {
    if (records_.is_pinned(record)) {
      alive_pinned_[record] = false;
      follow(record);
    } else {
      free_.set(number(record), 0, 0);
      if (nests_.has(record)) nests_.end(record);
    }
    cover(record, -1);
  }

  void cover(Index record, int times) {
    if (nesting_.flat()) return;
    const Index begin = nesting_.enter(record) + 1;
    const Index end = nesting_.leave(record);
    if (begin == end) return;
    // Only what is covered for the first time, or no longer at all, counts otherwise than before. Records alive with
    // their container are covered during one span of time, so that each changes twice.
    changed_.clear();
    const auto note = [&](Index number) {
      if (!pinned_.empty() && pinned_[number] != kNone) changed_.push_back(pinned_[number]);
    };
    if (times > 0) free_.each_uncovered(begin, end, note);
    free_.cover(begin, end, times);
    if (times < 0) free_.each_uncovered(begin, end, note);
    for (const Index inner : changed_) follow(inner);
  }

  // Takes or gives the bytes of a pinned record, as it counts now or not.
  void follow(Index record) {
    const bool counts = alive_pinned_[record] && !free_.is_covered(number(record));
    if (counts == taken_[record]) return;
    taken_[record] = counts;
    const Value begin = records_.pinned[record];
    const Value end = begin + records_.padded(record);
    if (counts) {
      room_.take(begin, end);
      highest_.emplace(end, record);
    } else {
      room_.give(begin, end);
    }
  }

  // The most bytes that pairs can have in common at an operator.
  Value overlapping(Value op) {
    pairs_.clear();
    mentioned_.clear();
    for (; row_ < rows_.size() && records_.first[rows_[row_].made] <= op; ++row_) {
      const Overlap& row = rows_[row_];
      if (records_.size[row.input] == 0 || records_.size[row.made] == 0) continue;
      mentioned_.push_back(row.input);
      mentioned_.push_back(row.made);
      if (!pairs_.empty() && pairs_.back().made == row.made && pairs_.back().input == row.input) continue;
      if (records_.is_pinned(row.input) && records_.is_pinned(row.made)) continue;
      if (nests_.are_one(row.input, row.made)) continue;
      if (free_.is_covered(number(row.input)) || free_.is_covered(number(row.made))) continue;
      pairs_.push_back(row);
    }
    return common_.most(op, pairs_, mentioned_);
  }

  void judge(Value shared) {
    const Value need = free_.padded() + nests_.bytes() - shared;
    if (need <= 0) return;
    while (!highest_.empty() && !taken_[highest_.top().second]) highest_.pop();
    const Value reached = room_.reach(need);
    if (reached > (highest_.empty() ? 0 : highest_.top().first)) best_ = std::max(best_, reached - free_.padding());
  }

  const Records& records_;
  Nesting nesting_;
  std::vector<Index> number_;
  Uncovered free_;
  Nests nests_;
  Room room_;
  std::vector<bool> taken_;
  std::vector<bool> alive_pinned_;
  std::vector<Index> pinned_;                             // the pinned record of each number in `Nesting`, or kNone
  std::vector<Index> changed_;                            // those that `cover` is about, kept for its memory
  std::priority_queue<std::pair<Value, Index>> highest_;  // ends of those that count or did
  std::vector<Overlap> rows_;                             // by operator, closest distance of a pair first
  std::size_t row_ = 0;
  CommonBytes common_;
  std::vector<Overlap> pairs_;  // of one operator, those that count
  std::vector<Index> mentioned_;
  Value best_ = 0;
};

}  // namespace

Value offsets_bound(const Records& records) {
  check(records);
  return Bound(records).run();
}

}  // namespace edgemem::proof
