#include "planner/offsets/pins.h"

#include <algorithm>
#include <set>

#include "planner/common/pins.h"

namespace edgemem {

std::int64_t pinned_lower_bound(const Records& records, std::span<const std::size_t> ids) {
  std::vector<std::size_t> births;
  for (const std::size_t i : ids) {
    if (records.size[i] > 0) births.push_back(i);
  }
  std::vector<std::size_t> deaths = births;
  std::sort(births.begin(), births.end(),
            [&](std::size_t a, std::size_t b) { return records.first[a] < records.first[b]; });
  std::sort(deaths.begin(), deaths.end(),
            [&](std::size_t a, std::size_t b) { return records.last[a] < records.last[b]; });
  PinnedRanges blocked(records);
  std::multiset<std::int64_t> paddings;  // of the free records
  std::multiset<std::int64_t> tops;      // of the pinned ones, padded
  std::int64_t free = 0;
  std::int64_t bound = 0;
  for (std::size_t birth = 0, death = 0; birth < births.size();) {
    const std::int64_t op = records.first[births[birth]];
    for (; records.last[deaths[death]] < op; ++death) {
      const std::size_t i = deaths[death];
      if (records.is_pinned(i)) {
        tops.erase(tops.find(records.pinned[i] + records.padded(i)));
      } else {
        free -= records.padded(i);
        paddings.erase(paddings.find(records.padded(i) - records.size[i]));
      }
    }
    blocked.drop_before(op);
    for (; birth < births.size() && records.first[births[birth]] == op; ++birth) {
      const std::size_t i = births[birth];
      if (records.is_pinned(i)) {
        blocked.insert(i);
        tops.insert(records.pinned[i] + records.padded(i));
        bound = std::max(bound, records.pinned[i] + records.size[i]);
      } else {
        free += records.padded(i);
        paddings.insert(records.padded(i) - records.size[i]);
      }
    }
    if (free == 0) continue;
    const std::int64_t top = blocked.room_for(free);
    if (tops.empty() || top > *tops.rbegin()) bound = std::max(bound, top - *paddings.rbegin());
  }
  return bound;
}

std::vector<std::int64_t> end_to_end_around(Column size, Column fixed, const IntervalSet& occupied) {
  std::vector<std::int64_t> offsets(size.size(), 0);
  std::int64_t next = 0;
  auto range = occupied.parts().begin();
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) continue;
    if (!fixed.empty() && fixed[i] >= 0) {
      offsets[i] = fixed[i];
      continue;
    }
    for (; range != occupied.parts().end() && range->begin < next + size[i]; ++range) {
      next = std::max(next, range->end);
    }
    offsets[i] = next;
    next += size[i];
  }
  return offsets;
}

}  // namespace edgemem
