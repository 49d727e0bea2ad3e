#include "planner/offsets/breadth.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

#include "planner/offsets/pins.h"

namespace edgemem {

namespace {

std::vector<std::size_t> sorted_by(Column keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace

std::int64_t offset_lower_bound(const Records& records) {
  check(records);
  if (records.constrained()) {
    std::vector<std::size_t> all(records.count());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return pinned_lower_bound(records, all);
  }
  const std::vector<std::size_t> births = sorted_by(records.first);
  const std::vector<std::size_t> deaths = sorted_by(records.last);
  std::priority_queue<std::pair<std::int64_t, std::int64_t>> paddings;  // (padding, last_op) of all that were born
  std::int64_t alive = 0;
  std::int64_t bound = 0;
  // Only operators at which a record begins count: a death takes at least as much off the sum as off the padding.
  for (std::size_t birth = 0, death = 0; birth < births.size();) {
    const std::int64_t op = records.first[births[birth]];
    for (; birth < births.size() && records.first[births[birth]] == op; ++birth) {
      const std::size_t i = births[birth];
      alive += records.padded(i);
      if (records.padded(i) > records.size[i]) paddings.emplace(records.padded(i) - records.size[i], records.last[i]);
    }
    for (; records.last[deaths[death]] < op; ++death) alive -= records.padded(deaths[death]);
    while (!paddings.empty() && paddings.top().second < op) paddings.pop();
    bound = std::max(bound, alive - (paddings.empty() ? 0 : paddings.top().first));
  }
  return bound;
}

Sections section_breadths(const Records& records) {
  check(records);
  Sections sections;
  if (records.count() == 0) return sections;
  const std::vector<std::size_t> births = sorted_by(records.first);
  const std::vector<std::size_t> deaths = sorted_by(records.last);
  std::int64_t breadth = 0;
  std::int64_t op = 0;
  for (std::size_t birth = 0, death = 0;;) {
    for (; birth < births.size() && records.first[births[birth]] == op; ++birth) breadth += records.size[births[birth]];
    for (; records.last[deaths[death]] < op; ++death) breadth -= records.size[deaths[death]];
    sections.starts.push_back(op);
    sections.breadths.push_back(breadth);
    const std::int64_t end = records.last[deaths[death]];
    if (birth < births.size() && records.first[births[birth]] <= end) {
      op = records.first[births[birth]];
    } else if (end < records.last[deaths.back()]) {
      op = end + 1;
    } else {
      return sections;
    }
  }
}

std::vector<std::int64_t> range_minimum(Column values, Column low, Column high) {
  if (low.size() != high.size()) throw std::invalid_argument("low and high differ in length");
  const std::size_t leaves = values.size();
  std::vector<std::int64_t> tree(2 * leaves);  // node i is the smaller of 2 i and 2 i + 1
  std::copy(values.begin(), values.end(), tree.begin() + static_cast<std::ptrdiff_t>(leaves));
  for (std::size_t i = leaves; i-- > 1;) tree[i] = std::min(tree[2 * i], tree[2 * i + 1]);
  std::vector<std::int64_t> minima(low.size());
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i] < 0 || low[i] > high[i] || static_cast<std::uint64_t>(high[i]) >= leaves) {
      throw std::invalid_argument("a range is empty or leaves the values");
    }
    std::size_t from = leaves + static_cast<std::size_t>(low[i]);
    std::size_t to = leaves + static_cast<std::size_t>(high[i]) + 1;
    std::int64_t least = values[static_cast<std::size_t>(low[i])];
    for (; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) least = std::min(least, tree[from++]);
      if (to % 2 == 1) least = std::min(least, tree[--to]);
    }
    minima[i] = least;
  }
  return minima;
}

}  // namespace edgemem
