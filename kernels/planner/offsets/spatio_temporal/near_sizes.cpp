#include "planner/offsets/spatio_temporal/near_sizes.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <tuple>

#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/lower.h"

namespace edgemem::spatio_temporal {

namespace {

std::int64_t tie_key(const Records& records, std::size_t i, Tie tie) {
  switch (tie) {
    case Tie::kFirst:
      return records.first[i];
    case Tie::kLast:
      return -records.last[i];
    default:
      return records.first[i] - records.last[i];
  }
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

std::vector<std::int64_t> place_by_near_size(const Records& records, std::int64_t share, Tie tie, Poll poll) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(records.count());
  for (std::size_t i = 0; i < records.count(); ++i) sizes.push_back(records.padded(i));
  std::vector<std::int64_t> raised = near_sizes(sizes, share);
  for (std::size_t i = 0; i < raised.size(); ++i) {
    if (records.is_pinned(i)) raised[i] = sizes[i];  // there may be no more room
  }
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> keys;
  keys.reserve(raised.size());
  for (std::size_t i = 0; i < raised.size(); ++i) {
    keys.emplace_back(-raised[i], tie_key(records, i, tie), static_cast<std::int64_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int64_t> order;
  order.reserve(keys.size());
  for (const auto& key : keys) order.push_back(std::get<2>(key));
  const Records placed{records.first, records.last, raised, records.alignment, records.pinned, records.reserved};
  return lowered(records, place_in_smallest_gap(placed, order, kScanLimit, std::move(poll)));
}

}  // namespace edgemem::spatio_temporal
