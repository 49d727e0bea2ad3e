#include "planner/offsets/search/gaps.h"

#include <utility>

#include "planner/common/index.h"
#include "planner/common/time_index.h"

namespace edgemem::offset_search {

GapFit::GapFit(const Part& part) : part_(part), offsets_(part.pinned) {
  for (const Interval& range : part.reserved) reserved_.insert(range);
}

bool GapFit::run(std::span<const std::int32_t> order, bool lowest, std::int64_t size, Budget& budget) {
  std::vector<std::int32_t> ids;  // the pinned ones first
  std::vector<TimeIndex::Lifetime> lifetimes;
  const auto add = [&](std::int32_t i) {
    budget.pass();
    ids.push_back(i);
    lifetimes.push_back({part_.begin[at(i)], part_.end[at(i)] - 1});
  };
  for (std::int32_t i = 0; i < part_.count(); ++i) {
    if (part_.is_pinned(i) && part_.record[at(i)] != Part::kNoRecord) add(i);
  }
  const std::size_t pins = ids.size();
  for (const std::int32_t i : order) {
    if (!part_.is_pinned(i)) add(i);
  }
  TimeIndex index(std::move(lifetimes));
  const Ceiling ceiling(part_, size - 1);
  FreeRanges free;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    budget.pass();
    const std::size_t i = at(ids[k]);
    if (k >= pins) {
      free.reset(part_.size[i]);
      free.cut(reserved_);
      index.cut_occupied(k, free);
      offsets_[i] = lowest ? free.lowest() : free.smallest();
      if (offsets_[i] + part_.size[i] > ceiling.over(part_.tail[i])) return false;
    }
    index.insert(k, {offsets_[i], offsets_[i] + part_.size[i]});
  }
  return true;
}

}  // namespace edgemem::offset_search
