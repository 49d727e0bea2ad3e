#include "planner/offsets/related/groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace edgemem::related {
namespace {

// Sets of records at fixed differences.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count), shift_(count, 0), members_(count) {
    std::iota(parent_.begin(), parent_.end(), Index{0});
    for (std::size_t i = 0; i < count; ++i) members_[i] = {static_cast<Index>(i)};
  }

  // The record that stands for the set, and the offset of `record` less the offset of that one.
  std::pair<Index, Value> find(Index record) {
    Index root = record;
    Value shift = 0;
    while (parent_[root] != root) {
      shift += shift_[root];
      root = parent_[root];
    }
    // Everything on the way now points to the root.
    Value left = shift;
    while (parent_[record] != record) {
      const Index next = parent_[record];
      const Value own = shift_[record];
      parent_[record] = root;
      shift_[record] = left;
      left -= own;
      record = next;
    }
    return {root, shift};
  }

  // Says that offset[a] == offset[b] + delta, of records in different sets.
  void join(Index a, Index b, Value delta) {
    auto [root_a, shift_a] = find(a);
    auto [root_b, shift_b] = find(b);
    Value shift = shift_b + delta - shift_a;  // of root_a less root_b
    if (members_[root_a].size() > members_[root_b].size()) {
      std::swap(root_a, root_b);
      shift = -shift;
    }
    parent_[root_a] = root_b;
    shift_[root_a] = shift;
    members_[root_b].insert(members_[root_b].end(), members_[root_a].begin(), members_[root_a].end());
    members_[root_a] = {};
  }

  const std::vector<Index>& members(Index root) const { return members_[root]; }

 private:
  std::vector<Index> parent_;
  std::vector<Value> shift_;
  std::vector<std::vector<Index>> members_;
};

Groups groups_of(Sets& sets, const Records& records) {
  const std::size_t count = records.count();
  Groups made;
  made.of.assign(count, kNone);
  made.depth.assign(count, 0);
  std::vector<Index> number(count, kNone);
  std::vector<Value> lowest;
  for (std::size_t i = 0; i < count; ++i) {
    if (records.size[i] == 0) continue;
    const auto [root, shift] = sets.find(static_cast<Index>(i));
    if (number[root] == kNone) {
      number[root] = static_cast<Index>(lowest.size());
      lowest.push_back(shift);
    }
    made.of[i] = number[root];
    made.depth[i] = shift;
    lowest[made.of[i]] = std::min(lowest[made.of[i]], shift);
  }
  made.pin.assign(lowest.size(), -1);
  made.top.assign(lowest.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Index group = made.of[i];
    if (group == kNone) continue;
    made.depth[i] -= lowest[group];
    made.top[group] = std::max(made.top[group], made.depth[i] * records.alignment + records.size[i]);
    if (!records.is_pinned(i)) continue;
    const Value base = records.pinned[i] / records.alignment - made.depth[i];
    if (base < 0 || (made.pin[group] >= 0 && made.pin[group] != base)) {
      throw std::invalid_argument("a record is pinned where it is not inside its container");
    }
    made.pin[group] = base;
  }
  return made;
}

}  // namespace

Groups container_groups(const Records& records, const Relations& relations) {
  Sets sets(records.count());
  for (std::size_t k = 0; k < relations.within.size(); k += 3) {
    const auto inner = static_cast<Index>(relations.within[k]);
    const auto outer = static_cast<Index>(relations.within[k + 1]);
    sets.join(inner, outer, relations.within[k + 2] / records.alignment);
  }
  return groups_of(sets, records);
}

Groups with_homes(const Groups& groups, const Records& records, const Relations& relations,
                  const std::vector<Pair>& pairs) {
  const std::size_t count = records.count();
  Sets sets(count);
  std::vector<Index> first(groups.count(), kNone);  // record of each group
  for (std::size_t i = 0; i < count; ++i) {
    const Index group = groups.of[i];
    if (group == kNone) continue;
    if (first[group] == kNone) {
      first[group] = static_cast<Index>(i);
    } else {
      sets.join(static_cast<Index>(i), first[group], groups.depth[i] - groups.depth[first[group]]);
    }
  }
  // Pairs of each record, seen from it: offset[record] - offset[other] must not be in [begin, end).
  std::vector<std::size_t> begin(count + 1, 0);
  for (const Pair& pair : pairs) ++begin[pair.a + 1], ++begin[pair.b + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<Pair> of(begin.back());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Pair& pair : pairs) {
    of[next[pair.a]++] = pair;
    of[next[pair.b]++] = {pair.b, pair.a, 1 - pair.end, 1 - pair.begin};
  }
  // Whether all of the set of `a` may be where offset[a] == offset[b].
  const auto may_share = [&](Index a, Index b) {
    const auto [root_a, shift_a] = sets.find(a);
    const auto [root_b, shift_b] = sets.find(b);
    const bool swapped = sets.members(root_a).size() > sets.members(root_b).size();
    const Value shift = swapped ? shift_a - shift_b : shift_b - shift_a;  // of the smaller one's root
    const Index larger = swapped ? root_a : root_b;
    for (const Index i : sets.members(swapped ? root_b : root_a)) {
      const Value own = sets.find(i).second + shift;
      for (std::size_t k = begin[i]; k < begin[i + 1]; ++k) {
        const auto [root, other] = sets.find(of[k].b);
        if (root == larger && of[k].begin <= own - other && own - other < of[k].end) return false;
      }
    }
    return true;
  };
  std::map<Value, std::vector<Index>> homes;  // of each role: one record of each home
  for (std::size_t i = 0; i < relations.roles.size(); ++i) {
    const Value role = relations.roles[i];
    if (role < 0 || groups.of[i] == kNone || groups.pin[groups.of[i]] >= 0) continue;
    const auto record = static_cast<Index>(i);
    std::vector<Index>& made = homes[role];
    bool has_home = false;
    for (std::size_t k = 0; k < made.size() && !has_home; ++k) {
      if (sets.find(record).first == sets.find(made[k]).first) {
        has_home = sets.find(record).second == sets.find(made[k]).second;
      } else if (may_share(record, made[k])) {
        sets.join(record, made[k], 0);
        has_home = true;
      }
    }
    if (!has_home) made.push_back(record);
  }
  return groups_of(sets, records);
}

}  // namespace edgemem::related
