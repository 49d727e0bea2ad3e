// Records that share bytes while both are alive, by a sweep over the operators.
//
//     bytes                          `Space` holds what is alive. A record x that begins must be of one nest with all
//       |   +---- x ----+            that it touches: with what reaches over its first byte (a), and with what begins
//       | +-+- a -+     |            inside it (b). What is in `Space` shares no bytes, or is of one nest; all that
//       | | +-----+-----+            reaches over the first byte of x shares that byte, so if one of these is of the
//       | +-------+  +-- b --+       nest of x, all of them are.
//       +---------------------- operators
//
// The inputs of an operator, which may overlap what it makes, leave `Space` for one of their own before that is judged:
// each of the two then holds nothing that shares bytes but nests.
#include <algorithm>
#include <iterator>
#include <map>

#include "proof/nesting.h"
#include "proof/offsets.h"
#include "proof/space.h"

namespace edgemem::proof {
namespace {

// A record where it lies. Ascending: what holds another comes before it.
struct Place {
  Value region;
  Value low;
  Value top;  // last byte
  Index enter;
  Index record;

  bool operator<(const Place& other) const {
    if (region != other.region) return region < other.region;
    if (low != other.low) return low < other.low;
    return top != other.top ? top > other.top : enter < other.enter;
  }
};

class Sweep {
 public:
  Sweep(const Records& records, const Placement& placement, const std::vector<bool>& broken,
        const std::vector<bool>& placed, Faults& faults)
      : records_(records),
        faults_(faults),
        nesting_(unbroken(records, broken)),
        places_(places(records, placement, placed)),
        place_(records.count(), kNone),
        beginning_(places_.size()),
        alive_(records.count(), false),
        space_(places_.size()),
        inputs_(records.overlap.empty() ? 0 : places_.size()) {
    for (std::size_t k = 0; k < places_.size(); ++k) {
      place_[places_[k].record] = static_cast<Index>(k);
      const bool same = k > 0 && places_[k - 1].region == places_[k].region && places_[k - 1].low == places_[k].low;
      beginning_[k] = same ? beginning_[k - 1] : static_cast<Index>(k);
    }
    for (const Overlap& row : overlaps(records)) {
      if (place_[row.input] == kNone || place_[row.made] == kNone) continue;
      if (apart(placement.offsets[row.input], placement.offsets[row.made], row.distance)) rows_.push_back(row);
    }
    std::sort(rows_.begin(), rows_.end(), [&](const Overlap& a, const Overlap& b) {
      const Value first_a = records_.first[a.made];
      const Value first_b = records_.first[b.made];
      return first_a != first_b ? first_a < first_b : a.made < b.made;
    });
    if (!rows_.empty()) {
      is_input_.assign(records.count(), false);
      allowed_for_.assign(records.count(), kNone);
    }
  }

  void run() {
    const Order births = order_by(records_.first, records_);
    const Order deaths = order_by(records_.last, records_);
    std::size_t dead = 0;
    std::size_t row = 0;
    for (std::size_t begin = 0; begin < births.size() && !faults_.full();) {
      const Value op = births[begin].first;
      for (; dead < deaths.size() && deaths[dead].first < op; ++dead) drop(deaths[dead].second);
      std::size_t end = begin;
      while (end < births.size() && births[end].first == op) ++end;
      std::size_t row_end = row;
      while (row_end < rows_.size() && records_.first[rows_[row_end].made] == op) ++row_end;
      if (row == row_end) {
        for (; begin < end; ++begin) judge(births[begin].second);
      } else {
        judge_with_inputs({births.data() + begin, end - begin}, {rows_.data() + row, row_end - row});
      }
      begin = end;
      row = row_end;
    }
  }

 private:
  static Nesting unbroken(const Records& records, const std::vector<bool>& broken) {
    std::vector<Within> rows;
    const std::vector<Within> all = withins(records);
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (!broken[k]) rows.push_back(all[k]);
    }
    return {records.count(), rows};
  }

  std::vector<Place> places(const Records& records, const Placement& placement, const std::vector<bool>& placed) const {
    std::vector<Place> all;
    all.reserve(records.count());
    for (std::size_t i = 0; i < records.count(); ++i) {
      if (records.size[i] == 0 || !placed[i]) continue;
      const Index record = static_cast<Index>(i);
      const Value low = placement.offsets[i];
      all.push_back({placement.region.empty() ? 0 : placement.region[i], low, last_byte(low, records.size[i]),
                     nesting_.enter(record), record});
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  void put(Space& space, Index record) const {
    const Place& place = places_[place_[record]];
    const Index root = nesting_.root(record);
    space.put(place_[record], place.top, nesting_.enter(root), nesting_.leave(root));
  }

  void drop(Index record) {
    if (!alive_[record]) return;
    alive_[record] = false;
    space_.drop(place_[record]);
  }

  // A record that shares bytes with this one and may not, or kNone.
  Index conflict(Index record, const Space& space) const {
    const Place& place = places_[place_[record]];
    const Index root = nesting_.root(record);
    const auto allowed = [&](Index other) { return !rows_.empty() && allowed_for_[other] == record; };
    for (std::size_t end = beginning_[place_[record]];;) {
      const std::size_t k = space.last_reaching(end, place.low);
      if (k == Space::kNowhere || places_[k].region != place.region) break;
      const Index other = places_[k].record;
      if (nesting_.related(record, other)) break;
      if (!allowed(other)) return other;
      end = k;
    }
    for (std::size_t begin = beginning_[place_[record]];;) {
      const std::size_t k = space.next_unrelated(begin, nesting_.enter(root), nesting_.leave(root));
      if (k == Space::kNowhere || places_[k].region != place.region || places_[k].low > place.top) break;
      if (!allowed(places_[k].record)) return places_[k].record;
      begin = k + 1;
    }
    return kNone;
  }

  // Lets a record that begins into `space_`, or reports it.
  void judge(Index record, bool with_inputs = false) {
    if (place_[record] == kNone) return;
    Index other = conflict(record, space_);
    if (other == kNone && with_inputs) other = conflict(record, inputs_);
    if (other != kNone) {
      faults_.add({Cause::kOverlap, static_cast<Value>(other), static_cast<Value>(record), records_.first[record]});
      return;
    }
    alive_[record] = true;
    put(space_, record);
  }

  // An operator with inputs that may overlap what it makes: those that begin and end here first, then what is made.
  void judge_with_inputs(std::span<const std::pair<Value, Index>> births, std::span<const Overlap> rows) {
    for (const Overlap& row : rows) is_input_[row.input] = true;
    for (const auto& [op, record] : births) {
      if (is_input_[record]) judge(record);
    }
    std::vector<Index> moved;
    for (const Overlap& row : rows) {
      if (!alive_[row.input]) continue;
      drop(row.input);
      put(inputs_, row.input);
      moved.push_back(row.input);
    }
    std::size_t row = 0;
    for (const auto& [op, record] : births) {
      if (is_input_[record]) continue;
      while (row < rows.size() && rows[row].made < record) ++row;
      for (; row < rows.size() && rows[row].made == record; ++row) allowed_for_[rows[row].input] = record;
      judge(record, true);
    }
    for (const Index record : moved) inputs_.drop(place_[record]);
    for (const Overlap& r : rows) is_input_[r.input] = false;
  }

  const Records& records_;
  Faults& faults_;
  Nesting nesting_;
  std::vector<Place> places_;
  std::vector<Index> place_;      // of each record among them
  std::vector<Index> beginning_;  // the first place that begins at the same byte
  std::vector<bool> alive_;       // in `space_`
  Space space_;
  Space inputs_;
  std::vector<Overlap> rows_;  // that hold, by the operator
  std::vector<bool> is_input_;
  std::vector<Index> allowed_for_;  // the record that may overlap it
};

// The same where nothing is related: what is alive and right is disjoint, so that its two neighbours tell.
void find_plain_overlaps(const Records& records, const Placement& placement, const std::vector<bool>& placed,
                         Faults& faults) {
  using Begin = std::pair<Value, Value>;           // region and first byte
  std::map<Begin, std::pair<Value, Index>> alive;  // with the last byte, and the record
  const auto begin_of = [&](Index i) {
    return Begin(placement.region.empty() ? 0 : placement.region[i], placement.offsets[i]);
  };
  const Order deaths = order_by(records.last, records);
  std::vector<bool> guilty(records.count(), false);
  std::size_t dead = 0;
  for (const auto& [op, record] : order_by(records.first, records)) {
    if (faults.full()) return;
    if (!placed[record]) continue;
    for (; deaths[dead].first < op; ++dead) {
      if (placed[deaths[dead].second] && !guilty[deaths[dead].second]) alive.erase(begin_of(deaths[dead].second));
    }
    const Begin begin = begin_of(record);
    const Value top = last_byte(begin.second, records.size[record]);
    const auto next = alive.lower_bound(begin);
    auto other = next;
    if (next != alive.begin() && std::prev(next)->first.first == begin.first &&
        std::prev(next)->second.first >= begin.second) {
      other = std::prev(next);
    } else if (next == alive.end() || next->first.first != begin.first || next->first.second > top) {
      alive.emplace_hint(next, begin, std::pair(top, record));
      continue;
    }
    guilty[record] = true;
    faults.add({Cause::kOverlap, static_cast<Value>(other->second.second), static_cast<Value>(record), op});
  }
}

}  // namespace

void find_overlaps(const Records& records, const Placement& placement, const std::vector<bool>& broken,
                   const std::vector<bool>& placed, Faults& faults) {
  if (records.overlap.empty() && records.within.empty()) {
    find_plain_overlaps(records, placement, placed, faults);
  } else {
    Sweep(records, placement, broken, placed, faults).run();
  }
}

}  // namespace edgemem::proof
