#include "planner/common/records.h"

#include <limits>
#include <stdexcept>
#include <vector>

#include "planner/common/pins.h"

namespace edgemem {

void check(const Records& records) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::size_t n = records.count();
  if (records.last.size() != n || records.size.size() != n) {
    throw std::invalid_argument("first_op, last_op and size differ in length");
  }
  if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("more than 2**31 - 1 records");
  }
  const std::int64_t alignment = records.alignment;
  if (alignment < 1 || (alignment & (alignment - 1)) != 0) {
    throw std::invalid_argument("the alignment is not a power of two");
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (records.first[i] < 0 || records.size[i] < 0) throw std::invalid_argument("a record has a negative value");
    if (records.first[i] > records.last[i]) throw std::invalid_argument("a record has last_op before first_op");
    if (records.size[i] > kMax - (alignment - 1) || records.padded(i) > kMax - total) {
      throw std::invalid_argument("the padded sizes add up to more than int64 holds");
    }
    total += records.padded(i);
  }
  if (records.constrained()) check_pins(records, kMax - total);
}

void check_permutation(Column order, std::size_t count) {
  if (order.size() != count) throw std::invalid_argument("the order differs in length from the records");
  std::vector<bool> seen(count, false);
  for (const std::int64_t i : order) {
    if (i < 0 || static_cast<std::size_t>(i) >= count || seen[static_cast<std::size_t>(i)]) {
      throw std::invalid_argument("the order does not hold every record once");
    }
    seen[static_cast<std::size_t>(i)] = true;
  }
}

}  // namespace edgemem
