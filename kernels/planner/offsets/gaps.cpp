#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "planner/common/interval_set.h"
#include "planner/common/pins.h"
#include "planner/common/time_index.h"
#include "planner/offsets/placement.h"

namespace edgemem {

namespace {

constexpr std::size_t kAhead = 2;  // records to load ahead; what is loaded much earlier has left the cache again

// The paper's loop, over the placed records sorted by offset.
std::vector<std::int64_t> place_by_scan(const Records& records, Column order) {
  struct Placed {
    std::int64_t first, last, begin, end;
  };
  std::vector<std::int64_t> offsets(records.count(), 0);
  std::vector<Placed> placed;
  placed.reserve(records.count());
  for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
    placed.push_back({0, std::numeric_limits<std::int64_t>::max(), records.reserved[k], records.reserved[k + 1]});
  }
  for (std::size_t i = 0; i < records.pinned.size(); ++i) {
    if (!records.is_pinned(i)) continue;
    offsets[i] = records.pinned[i];
    placed.push_back({records.first[i], records.last[i], offsets[i], offsets[i] + records.padded(i)});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  for (const std::int64_t id : order) {
    const auto i = static_cast<std::size_t>(id);
    if (records.size[i] == 0 || records.is_pinned(i)) continue;
    const std::int64_t first = records.first[i];
    const std::int64_t last = records.last[i];
    const std::int64_t need = records.padded(i);
    std::int64_t previous_end = 0;
    std::int64_t best = -1;
    std::int64_t smallest_gap = 0;
    for (const Placed& other : placed) {
      if (other.first > last || other.last < first) continue;
      const std::int64_t gap = other.begin - previous_end;
      if (gap >= need && (best < 0 || gap < smallest_gap)) {
        smallest_gap = gap;
        best = previous_end;
      }
      previous_end = std::max(previous_end, other.end);
    }
    offsets[i] = best < 0 ? previous_end : best;
    const Placed added{first, last, offsets[i], offsets[i] + need};
    const auto after = std::upper_bound(placed.begin(), placed.end(), added.begin,
                                        [](std::int64_t begin, const Placed& other) { return begin < other.begin; });
    placed.insert(after, added);
  }
  return offsets;
}

std::vector<std::int64_t> place_by_time_index(const Records& records, Column order, Poll& poll) {
  std::vector<std::size_t> ids;
  std::vector<TimeIndex::Lifetime> lifetimes;
  std::vector<std::int64_t> needs;
  const auto add = [&](std::size_t i) {
    ids.push_back(i);
    lifetimes.push_back({records.first[i], records.last[i]});
    needs.push_back(records.padded(i));
  };
  for (std::size_t i = 0; i < records.pinned.size(); ++i) {
    if (records.is_pinned(i)) add(i);
  }
  const std::size_t pins = ids.size();
  for (const std::int64_t id : order) {
    const auto i = static_cast<std::size_t>(id);
    if (records.size[i] > 0 && !records.is_pinned(i)) add(i);
  }
  std::vector<std::int64_t> offsets(records.count(), 0);
  TimeIndex index(std::move(lifetimes));
  FreeRanges free;
  for (std::size_t k = 0; k < pins; ++k) {
    offsets[ids[k]] = records.pinned[ids[k]];
    index.insert(k, {offsets[ids[k]], offsets[ids[k]] + needs[k]});
  }
  const IntervalSet reserved = reserved_set(records);
  for (std::size_t k = pins; k < ids.size(); ++k) {
    poll.step();
    if (k + kAhead < ids.size()) index.prefetch(k + kAhead);
    free.reset(needs[k]);
    free.cut(reserved);
    index.cut_occupied(k, free);
    const std::int64_t offset = free.smallest();
    index.insert(k, {offset, offset + needs[k]});
    offsets[ids[k]] = offset;
  }
  return offsets;
}

}  // namespace

std::vector<std::int64_t> place_in_smallest_gap(const Records& records, Column order, std::size_t scan_limit,
                                                Poll poll) {
  check(records);
  check_permutation(order, records.count());
  return records.count() <= scan_limit ? place_by_scan(records, order) : place_by_time_index(records, order, poll);
}

}  // namespace edgemem
