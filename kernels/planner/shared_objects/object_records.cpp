#include "planner/shared_objects/object_records.h"

#include <stdexcept>

namespace edgemem {
namespace {

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

}  // namespace edgemem
