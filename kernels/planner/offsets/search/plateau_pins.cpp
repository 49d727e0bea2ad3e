// What pinned pieces change in the plateau search.
#include <algorithm>
#include <numeric>

#include "planner/offsets/search/plateau.h"

namespace edgemem::offset_search {

void PlateauSearch::prepare_pins() {
  std::vector<std::int32_t> ascending;
  pins_begin_.assign(sections_ + 1, 0);
  for (std::int32_t i = 0; i < part_.count(); ++i) {
    if (!part_.is_pinned(i)) continue;
    ascending.push_back(i);
    offset_[at(i)] = part_.pinned[at(i)];
    for (std::int32_t t = part_.begin[at(i)]; t < part_.end[at(i)]; ++t) ++pins_begin_[at(t) + 1];
    budget_->pass(part_.end[at(i)] - part_.begin[at(i)]);
  }
  std::partial_sum(pins_begin_.begin(), pins_begin_.end(), pins_begin_.begin());
  budget_->sort(ascending.begin(), ascending.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int64_t offset_a = part_.pinned[at(a)];
    const std::int64_t offset_b = part_.pinned[at(b)];
    return offset_a != offset_b ? offset_a < offset_b : a < b;
  });
  pins_.resize(pins_begin_.back());
  std::vector<std::size_t> next(pins_begin_.begin(), pins_begin_.end() - 1);
  for (const std::int32_t i : ascending) {
    budget_->pass(part_.end[at(i)] - part_.begin[at(i)]);
    for (std::int32_t t = part_.begin[at(i)]; t < part_.end[at(i)]; ++t) pins_[next[at(t)]++] = i;
  }
}

// Lowers a ceiling that is in a reserved range to its beginning, where nothing more can end than below it. False when a
// pinned record ends above the ceiling.
bool PlateauSearch::within_reach() {
  for (const Interval& range : part_.reserved) {
    if (range.begin < ceiling_.units && ceiling_.units <= range.end) {
      ceiling_.units = range.begin;
      ceiling_.tail = part_.unit;
      break;
    }
  }
  for (std::int32_t i = 0; i < part_.count(); ++i) {
    if (!part_.is_pinned(i) || part_.record[at(i)] == Part::kNoRecord) continue;
    if (part_.pinned[at(i)] + part_.size[at(i)] > ceiling_.over(part_.tail[at(i)])) return false;
  }
  return true;
}

// The lowest pinned piece that is left there, or kInfinite. Those that begin above the ceiling are all reserved ranges
// and concern nothing.
std::int64_t PlateauSearch::lid(std::int32_t t) {
  if (!pinned_) return kInfinite;
  const std::size_t next = pins_begin_[at(t)] + static_cast<std::size_t>(pins_placed(t));
  if (next == pins_begin_[at(t) + 1]) return kInfinite;
  const std::int64_t offset = part_.pinned[at(pins_[next])];
  return offset >= ceiling_.units ? kInfinite : offset;
}

// In a section that nothing crosses: only free pieces are left, which can be stacked, or only pinned ones.
bool PlateauSearch::settled(std::int32_t section) {
  if (lid(section) == kInfinite) return true;
  const std::int32_t heads = part_.count();
  for (std::int32_t i = next_begin_[at(heads + section)]; i < heads; i = next_begin_[at(i)]) {
    if (!part_.is_pinned(i)) return false;
  }
  return true;
}

// As next_height. What comes first rests on a piece that is on the plateau, or on one that crosses a wall, or it does
// so itself, or it is pinned.
std::int64_t PlateauSearch::next_height_pinned(std::int32_t line, bool right) {
  const Walls walls = walls_of(line);
  const std::int32_t heads = part_.count();
  std::int64_t to = std::min({walls.left, walls.right, lid(right ? walls.end - 1 : line)});
  if (to == walls.base) return kInfinite;
  for (std::int32_t t = right ? line : line + 1; t < walls.end && to > walls.base + 1; ++t) {
    for (std::int32_t i = next_begin_[at(heads + t)]; i < heads && part_.end[at(i)] <= walls.end;
         i = next_begin_[at(i)]) {
      if (right && part_.end[at(i)] == walls.end) break;
      to = std::min(to, walls.base + part_.size[at(i)]);
    }
  }
  return to;
}

}  // namespace edgemem::offset_search
