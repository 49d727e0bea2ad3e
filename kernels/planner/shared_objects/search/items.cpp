#include "planner/shared_objects/search/items.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace edgemem::object_search {
namespace {

Box box_of_record(const ObjectRecords& records, std::size_t i) {
  Box box{1, 1, 1};
  for (std::size_t d = 0; d < records.rank; ++d) box[d] = records.extent[i * records.rank + d];
  return box;
}

}  // namespace

Items items_of(const ObjectRecords& records) {
  std::vector<std::size_t> kept;
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < records.count(); ++i) {
    const Box box = box_of_record(records, i);
    if (content(box) == 0) continue;
    kept.push_back(i);
    boxes.push_back(box);
  }
  const std::size_t n = kept.size();
  std::vector<std::pair<std::int64_t, std::size_t>> births;
  std::vector<std::pair<std::int64_t, std::size_t>> deaths;
  for (std::size_t k = 0; k < n; ++k) {
    births.emplace_back(records.first[kept[k]], k);
    deaths.emplace_back(records.last[kept[k]], k);
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());

  Items items;
  std::vector<std::int32_t> begin(n);
  std::vector<std::int32_t> end(n);
  bool grown = false;  // since the last section was closed
  std::size_t born = 0;
  for (const auto& [last, dead] : deaths) {
    for (; born < n && births[born].first <= last; ++born) {
      begin[births[born].second] = items.sections;
      grown = true;
    }
    if (grown) ++items.sections;
    grown = false;
    end[dead] = items.sections;
  }

  const auto less = [](const Box& a, const Box& b) { return std::pair(content(a), a) < std::pair(content(b), b); };
  items.box = boxes;
  std::sort(items.box.begin(), items.box.end(), less);
  items.box.erase(std::unique(items.box.begin(), items.box.end()), items.box.end());
  for (std::size_t t = 1; t < items.box.size(); ++t) {
    items.is_nested = items.is_nested && holds(items.box[t], items.box[t - 1]);
  }
  std::vector<std::int32_t> type(n);
  for (std::size_t k = 0; k < n; ++k) {
    type[k] = static_cast<std::int32_t>(std::lower_bound(items.box.begin(), items.box.end(), boxes[k], less) -
                                        items.box.begin());
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(begin[a], -type[a], end[a], kept[a]) < std::tuple(begin[b], -type[b], end[b], kept[b]);
  });
  for (const std::size_t k : order) {
    items.begin.push_back(begin[k]);
    items.end.push_back(end[k]);
    items.type.push_back(type[k]);
    items.record.push_back(kept[k]);
  }
  return items;
}

}  // namespace edgemem::object_search
