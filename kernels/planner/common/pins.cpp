#include "planner/common/pins.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace edgemem {

void PinnedRanges::drop_before(std::int64_t op) {
  for (; !ends_.empty() && ends_.top().first < op; ends_.pop()) ranges_.erase(ends_.top().second);
}

bool PinnedRanges::insert(std::size_t i) {
  const std::int64_t begin = records_.pinned[i];
  const std::int64_t end = begin + records_.padded(i);
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < end) return false;
  if (next != ranges_.begin() && std::prev(next)->second > begin) return false;
  ranges_.emplace_hint(next, begin, end);
  ends_.emplace(records_.last[i], begin);
  return true;
}

std::int64_t PinnedRanges::room_for(std::int64_t bytes) const {
  std::int64_t reached = 0;
  auto pin = ranges_.begin();
  for (std::size_t k = 0;;) {
    const bool ranges_left = k < records_.reserved.size();
    if (pin == ranges_.end() && !ranges_left) return reached + bytes;
    const bool range_next = ranges_left && (pin == ranges_.end() || records_.reserved[k] < pin->first);
    const std::int64_t begin = range_next ? records_.reserved[k] : pin->first;
    if (begin - reached >= bytes) return reached + bytes;
    bytes -= std::max<std::int64_t>(0, begin - reached);
    reached = std::max(reached, range_next ? records_.reserved[k + 1] : pin->second);
    if (range_next) {
      k += 2;
    } else {
      ++pin;
    }
  }
}

void check_pins(const Records& records, std::int64_t highest) {
  const std::int64_t alignment = records.alignment;
  const auto aligned = [&](std::int64_t address) { return (address & (alignment - 1)) == 0; };
  if (!records.pinned.empty() && records.pinned.size() != records.count()) {
    throw std::invalid_argument("pinned differs in length from the records");
  }
  if (records.reserved.size() % 2 != 0) throw std::invalid_argument("a reserved range has no end");
  std::int64_t reached = -1;
  for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
    const std::int64_t begin = records.reserved[k];
    const std::int64_t end = records.reserved[k + 1];
    if (begin <= reached || end <= begin) throw std::invalid_argument("the reserved ranges are not ascending");
    if (!aligned(begin) || !aligned(end)) throw std::invalid_argument("a reserved range is not aligned");
    if (end > highest) throw std::invalid_argument("a reserved range leaves int64");
    reached = end;
  }
  std::vector<std::size_t> pins;
  for (std::size_t i = 0; i < records.pinned.size(); ++i) {
    const std::int64_t offset = records.pinned[i];
    if (offset < -1) throw std::invalid_argument("a pinned record has a negative offset");
    if (offset < 0 || records.size[i] == 0) continue;
    if (!aligned(offset)) throw std::invalid_argument("a pinned record is not aligned");
    if (offset > highest - records.padded(i)) throw std::invalid_argument("a pinned record leaves int64");
    pins.push_back(i);
  }
  const IntervalSet reserved = reserved_set(records);
  std::sort(pins.begin(), pins.end(),
            [&](std::size_t a, std::size_t b) { return records.first[a] < records.first[b]; });
  PinnedRanges alive(records);
  for (const std::size_t i : pins) {
    alive.drop_before(records.first[i]);
    if (!alive.insert(i)) throw std::invalid_argument("two pinned records that are alive together overlap");
    const auto range = std::partition_point(reserved.parts().begin(), reserved.parts().end(),
                                            [&](const Interval& part) { return part.end <= records.pinned[i]; });
    if (range != reserved.parts().end() && range->begin < records.pinned[i] + records.padded(i)) {
      throw std::invalid_argument("a pinned record is in a reserved range");
    }
  }
}

IntervalSet reserved_set(const Records& records) {
  IntervalSet set;
  for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
    set.insert({records.reserved[k], records.reserved[k + 1]});
  }
  return set;
}

}  // namespace edgemem
