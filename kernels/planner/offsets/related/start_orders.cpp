#include "planner/offsets/related/start_orders.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace edgemem::related {

std::vector<std::vector<Index>> start_orders(const Records& records, const Groups& groups) {
  const std::size_t count = groups.count();
  std::vector<Value> first(count, std::numeric_limits<Value>::max());
  std::vector<Value> last(count, -1);
  std::vector<std::pair<Value, Value>> changes;  // operator, and by how much more is alive from it on
  for (std::size_t i = 0; i < records.count(); ++i) {
    const Index group = groups.of[i];
    if (group == kNone) continue;
    first[group] = std::min(first[group], records.first[i]);
    last[group] = std::max(last[group], records.last[i]);
    changes.emplace_back(records.first[i], records.padded(i));
    changes.emplace_back(records.last[i] + 1, -records.padded(i));
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Value> ops, alive;
  Value sum = 0;
  for (const auto& [op, more] : changes) {
    sum += more;
    if (ops.empty() || ops.back() != op) {
      ops.push_back(op);
      alive.push_back(sum);
    } else {
      alive.back() = sum;
    }
  }
  // The most alive in a group's time, by a table of maxima over runs of 2**level operators.
  std::vector<std::vector<Value>> most{alive};
  for (std::size_t width = 1; 2 * width <= alive.size(); width *= 2) {
    std::vector<Value> wider(alive.size() - 2 * width + 1);
    for (std::size_t k = 0; k < wider.size(); ++k) wider[k] = std::max(most.back()[k], most.back()[k + width]);
    most.push_back(std::move(wider));
  }
  std::vector<Value> load(count, 0);
  const auto at = [&](Value op) {
    return static_cast<std::size_t>(std::lower_bound(ops.begin(), ops.end(), op) - ops.begin());
  };
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (groups.of[i] == kNone) continue;
    const std::size_t begin = at(records.first[i]);
    const std::size_t end = at(records.last[i] + 1);
    const auto level = static_cast<std::size_t>(std::bit_width(end - begin) - 1);
    const Value here = std::max(most[level][begin], most[level][end - (std::size_t{1} << level)]);
    load[groups.of[i]] = std::max(load[groups.of[i]], here);
  }
  std::vector<Index> free;
  for (Index group = 0; group < count; ++group) {
    if (groups.pin[group] < 0) free.push_back(group);
  }
  std::vector<std::vector<Index>> orders;
  const auto sorted_by = [&](const auto& key) {
    std::vector<Index> order = free;
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key(a) < key(b); });
    orders.push_back(std::move(order));
  };
  using Key = std::pair<double, double>;
  const auto number = [](Value value) { return static_cast<double>(value); };
  sorted_by([&](Index g) { return Key{-number(groups.top[g]), number(first[g])}; });
  sorted_by([&](Index g) { return Key{number(first[g]), 0}; });
  sorted_by([&](Index g) { return Key{-number(last[g]), 0}; });
  sorted_by([&](Index g) { return Key{-number(groups.top[g]), -number(first[g])}; });
  sorted_by([&](Index g) { return Key{-number(load[g]), -number(groups.top[g])}; });
  sorted_by([&](Index g) { return Key{-number(groups.top[g]) * number(last[g] - first[g] + 1), 0}; });
  sorted_by([&](Index g) { return Key{number(first[g] - last[g]), -number(groups.top[g])}; });
  return orders;
}

std::vector<Index> in_order_of_homes(const Records& records, const Groups& groups, const Groups& homes,
                                     const std::vector<Index>& order) {
  std::vector<std::size_t> position(homes.count(), 0);
  for (std::size_t k = 0; k < order.size(); ++k) position[order[k]] = k;
  std::vector<std::pair<std::size_t, Value>> keys(groups.count(), {0, std::numeric_limits<Value>::max()});
  for (std::size_t i = 0; i < records.count(); ++i) {
    const Index group = groups.of[i];
    if (group == kNone) continue;
    keys[group] = {position[homes.of[i]], std::min(keys[group].second, records.first[i])};
  }
  std::vector<Index> sorted;
  for (Index group = 0; group < groups.count(); ++group) {
    if (groups.pin[group] < 0) sorted.push_back(group);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](Index a, Index b) { return keys[a] < keys[b]; });
  return sorted;
}

}  // namespace edgemem::related
