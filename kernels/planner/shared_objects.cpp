#include "planner/shared_objects.h"

#include <limits>
#include <stdexcept>

#include "planner/shared_objects_table.h"

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

std::int64_t content_of(const ObjectRecords& records, std::size_t i) {
  switch (records.rank) {
    case 1:
      return records.extent[i];
    case 2:
      return content(extent_of<2>(records, i));
    default:
      return content(extent_of<3>(records, i));
  }
}

}  // namespace

void check(const ObjectRecords& records) {
  const std::size_t n = records.count();
  if (records.rank < 1 || records.rank > 3) throw std::invalid_argument("a size is bytes, WxH or WxHxD texels");
  if (records.last.size() != n || records.extent.size() != n * records.rank) {
    throw std::invalid_argument("first_op, last_op and size differ in length");
  }
  if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("more than 2**31 - 1 records");
  }
  for (const std::int64_t length : records.extent) {
    if (length < 0) throw std::invalid_argument("a record has a negative value");
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (records.first[i] < 0) throw std::invalid_argument("a record has a negative value");
    if (records.first[i] > records.last[i]) throw std::invalid_argument("a record has last_op before first_op");
    // Half of int64 is the limit: a join may double what an object and its record have.
    const std::int64_t content = content_of(records, i);
    if (content > kInt64Max / 2 - total) throw std::invalid_argument("the sizes add up to more than int64 holds");
    total += content;
  }
}

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
