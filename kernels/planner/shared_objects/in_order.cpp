#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/object_table.h"

namespace edgemem {
namespace {

template <std::size_t Rank>
std::vector<std::int64_t> in_order(const ObjectRecords& records, Column order, Pick pick) {
  ObjectTable<Rank> objects(records);
  std::vector<std::int64_t> assignment(records.count());
  for (const std::int64_t next : order) {
    const auto record = static_cast<std::size_t>(next);
    const std::int64_t own = objects.record_content(record);
    const std::size_t none = objects.count();
    std::size_t best = none;
    std::int64_t best_growth = 0;
    std::int64_t best_content = 0;
    for (std::size_t object = 0; object < none; ++object) {
      const std::int64_t growth = objects.growth(object, record);
      if (growth > own) continue;
      const std::int64_t content = pick == Pick::kClosest ? objects.object_content(object) : own;
      if (best != none && (growth > best_growth || (growth == best_growth && content >= best_content))) continue;
      if (!objects.is_free(object, record)) continue;
      best = object;
      best_growth = growth;
      best_content = content;
      if (growth == 0 && content == own) break;  // no later one can be better
    }
    if (best == none) {
      objects.open(record);
    } else {
      objects.join(best, record);
    }
    assignment[record] = static_cast<std::int64_t>(best);
  }
  return assignment;
}

}  // namespace

std::vector<std::int64_t> assign_in_order(const ObjectRecords& records, Column order, Pick pick) {
  check(records);
  check_permutation(order, records.count());
  switch (records.rank) {
    case 1:
      return in_order<1>(records, order, pick);
    case 2:
      return in_order<2>(records, order, pick);
    default:
      return in_order<3>(records, order, pick);
  }
}

}  // namespace edgemem
