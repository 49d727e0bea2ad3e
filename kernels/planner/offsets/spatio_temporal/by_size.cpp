#include "planner/offsets/spatio_temporal/by_size.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <functional>
#include <utility>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/lower.h"

namespace edgemem::spatio_temporal {

namespace {

// The most bytes alive while each record is in use.
std::vector<std::int64_t> most_alive(const Records& records) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // operator, and by how much more is alive from it on
  for (std::size_t i = 0; i < records.count(); ++i) {
    changes.emplace_back(records.first[i], records.padded(i));
    changes.emplace_back(records.last[i] + 1, -records.padded(i));
  }
  std::sort(changes.begin(), changes.end());
  std::vector<std::int64_t> ops, negated;
  std::int64_t alive = 0;
  for (const auto& [op, more] : changes) {
    alive += more;
    if (ops.empty() || ops.back() != op) {
      ops.push_back(op);
      negated.push_back(-alive);
    } else {
      negated.back() = -alive;
    }
  }
  std::vector<std::int64_t> low, high;
  for (std::size_t i = 0; i < records.count(); ++i) {
    low.push_back(std::lower_bound(ops.begin(), ops.end(), records.first[i]) - ops.begin());
    high.push_back(std::lower_bound(ops.begin(), ops.end(), records.last[i] + 1) - ops.begin() - 1);
  }
  std::vector<std::int64_t> found = range_minimum(negated, low, high);
  for (std::int64_t& value : found) value = -value;
  return found;
}

struct Keys {
  std::int64_t level, size, tie, first, index;

  auto operator<=>(const Keys&) const = default;
};

std::vector<std::int64_t> sorted(const Order& order, const Records& records, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> load;
  if (order.levels != 0 || order.tie == Tie::kLoad) load = most_alive(records);
  const std::int64_t most = load.empty() ? 0 : std::max<std::int64_t>(1, *std::max_element(load.begin(), load.end()));
  const std::int64_t largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  std::vector<Keys> keys;
  keys.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Keys key{0, -sizes[i], records.first[i], records.first[i], static_cast<std::int64_t>(i)};
    if (order.levels != 0) {
      const double below = static_cast<double>(most - load[i]) / static_cast<double>(most);
      key.level = static_cast<std::int64_t>(below * static_cast<double>(order.levels));
    }
    if (order.octaves != kExact) {
      const auto times = static_cast<std::uint64_t>(largest / std::max<std::int64_t>(1, sizes[i]));
      key.size = (std::bit_width(times) - 1) / order.octaves;
    }
    if (order.tie == Tie::kLast) key.tie = -records.last[i];
    if (order.tie == Tie::kLifetime) key.tie = records.first[i] - records.last[i];
    if (order.tie == Tie::kLoad) key.tie = -load[i];
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int64_t> indices;
  indices.reserve(keys.size());
  for (const Keys& key : keys) indices.push_back(key.index);
  return indices;
}

}  // namespace

std::vector<std::int64_t> near_sizes(const std::vector<std::int64_t>& sizes, std::int64_t share) {
  if (share == 0) return sizes;
  std::vector<std::int64_t> sorted = sizes;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::vector<std::int64_t> largest;  // of those that count as equal; descending
  for (const std::int64_t size : sorted) {
    if (largest.empty() || size < largest.back() - largest.back() / share) largest.push_back(size);
  }
  std::vector<std::int64_t> raised;
  raised.reserve(sizes.size());
  for (const std::int64_t size : sizes) {
    raised.push_back(*(std::upper_bound(largest.begin(), largest.end(), size, std::greater<>()) - 1));
  }
  return raised;
}

std::vector<std::int64_t> place_by(const Order& order, const Records& records, Poll poll) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(records.count());
  for (std::size_t i = 0; i < records.count(); ++i) sizes.push_back(records.padded(i));
  std::vector<std::int64_t> raised = near_sizes(sizes, order.share);
  for (std::size_t i = 0; i < raised.size(); ++i) {
    if (records.is_pinned(i)) raised[i] = sizes[i];  // there may be no more room
  }
  const Records placed{records.first, records.last, raised, records.alignment, records.pinned, records.reserved};
  const std::vector<std::int64_t> indices = sorted(order, records, raised);
  return lowered(records, place_in_smallest_gap(placed, indices, kScanLimit, std::move(poll)));
}

}  // namespace edgemem::spatio_temporal
