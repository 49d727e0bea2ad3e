#include "planner/offsets/search/pins_by_section.h"

#include <numeric>

#include "planner/common/index.h"

namespace edgemem::offset_search {

PinsBySection::PinsBySection(const Part& part, Budget& budget) {
  std::vector<std::int32_t> ascending;
  begin_.assign(at(part.sections()) + 1, 0);
  for (std::int32_t i = 0; i < part.count(); ++i) {
    if (!part.is_pinned(i)) continue;
    ascending.push_back(i);
    for (std::int32_t t = part.begin[at(i)]; t < part.end[at(i)]; ++t) ++begin_[at(t) + 1];
    budget.pass(part.end[at(i)] - part.begin[at(i)]);
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  budget.sort(ascending.begin(), ascending.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int64_t offset_a = part.pinned[at(a)];
    const std::int64_t offset_b = part.pinned[at(b)];
    return offset_a != offset_b ? offset_a < offset_b : a < b;
  });
  pins_.resize(begin_.back());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (const std::int32_t i : ascending) {
    budget.pass(part.end[at(i)] - part.begin[at(i)]);
    const Pin pin{part.pinned[at(i)], part.pinned[at(i)] + part.size[at(i)], i};
    for (std::int32_t t = part.begin[at(i)]; t < part.end[at(i)]; ++t) pins_[next[at(t)]++] = pin;
  }
}

std::optional<Ceiling> ceiling_around_pins(const Part& part, Ceiling ceiling) {
  for (const Interval& range : part.reserved) {
    if (range.begin < ceiling.units && ceiling.units <= range.end) {
      ceiling.units = range.begin;
      ceiling.tail = part.unit;
      break;
    }
  }
  for (std::int32_t i = 0; i < part.count(); ++i) {
    if (!part.is_pinned(i) || part.record[at(i)] == Part::kNoRecord) continue;
    if (part.pinned[at(i)] + part.size[at(i)] > ceiling.over(part.tail[at(i)])) return std::nullopt;
  }
  return ceiling;
}

}  // namespace edgemem::offset_search
