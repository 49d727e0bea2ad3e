#include "replay/live_ranges.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>

namespace edgemem {

bool LiveRanges::add(int64_t begin, const LiveRange& range) noexcept {
  const auto after = ranges_.lower_bound(begin);
  if (after != ranges_.end() && after->first < range.end) {
    return false;
  }
  if (after != ranges_.begin() && std::prev(after)->second.end > begin) {
    return false;
  }
  if (!spare_.empty()) {
    Map::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = begin;
    node.mapped() = range;
    ranges_.insert(after, std::move(node));
    return true;
  }
  try {
    ranges_.emplace_hint(after, begin, range);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

LiveRanges::Map::iterator LiveRanges::remove(Map::iterator range) noexcept {
  const auto after = std::next(range);
  Map::node_type node = ranges_.extract(range);
  if (spare_.size() < kMostSpare) {
    try {
      spare_.push_back(std::move(node));
    } catch (const std::exception&) {  // the node goes back to the system
    }
  }
  return after;
}

int64_t LiveRanges::best_fit(std::span<const Interval> space, int64_t bytes, int64_t alignment) const noexcept {
  int64_t best = -1;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  const auto consider = [&](int64_t begin, int64_t end) {
    const int64_t place = (begin + alignment - 1) / alignment * alignment;
    if (end - begin < smallest && place <= end - bytes) {
      best = place;
      smallest = end - begin;
    }
  };
  for (const Interval& part : space) {
    int64_t reached = part.begin;
    auto next = ranges_.upper_bound(part.begin);
    if (next != ranges_.begin()) {
      reached = std::max(reached, std::prev(next)->second.end);
    }
    for (; next != ranges_.end() && next->first < part.end; ++next) {
      consider(reached, next->first);
      reached = next->second.end;
    }
    consider(reached, part.end);
  }
  return best;
}

}  // namespace edgemem
