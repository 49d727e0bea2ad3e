#include "planner/shared_objects/positional_maxima.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace edgemem {
namespace {

// How many records hold each point of time. Nodes keep what was added to all of their range, so nothing is pushed down.
class Cover {
 public:
  explicit Cover(std::size_t points)
      : leaves_(std::bit_ceil(std::max<std::size_t>(points, 1))), added_(2 * leaves_, 0), most_(2 * leaves_, 0) {}

  std::int64_t most() const { return most_[1]; }

  // One more record over the points [from, to).
  void add(std::size_t from, std::size_t to) {
    from += leaves_;
    to += leaves_;
    const std::size_t lowest = from;
    const std::size_t highest = to - 1;
    for (; from < to; from /= 2, to /= 2) {
      if (from & 1) add_to(from++);
      if (to & 1) add_to(--to);
    }
    refresh_above(lowest);
    refresh_above(highest);
  }

 private:
  void add_to(std::size_t node) {
    ++added_[node];
    ++most_[node];
  }

  void refresh_above(std::size_t node) {
    while (node /= 2) most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }

  std::size_t leaves_;
  std::vector<std::int64_t> added_;
  std::vector<std::int64_t> most_;
};

}  // namespace

std::vector<std::int64_t> positional_maxima(const Records& records) {
  check(records);
  // The largest profiles are met where a record begins, so only the distinct first operators are points of time.
  std::vector<std::int64_t> times(records.first.begin(), records.first.end());
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());

  std::vector<std::size_t> order(records.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return records.size[a] > records.size[b]; });

  Cover cover(times.size());
  std::vector<std::int64_t> maxima;
  for (const std::size_t i : order) {
    const auto from = std::lower_bound(times.begin(), times.end(), records.first[i]);
    const auto to = std::upper_bound(from, times.end(), records.last[i]);
    cover.add(static_cast<std::size_t>(from - times.begin()), static_cast<std::size_t>(to - times.begin()));
    // One record raises the count by one at most, and every record so far is at least as large as this one.
    if (cover.most() > static_cast<std::int64_t>(maxima.size())) maxima.push_back(records.size[i]);
  }
  return maxima;
}

}  // namespace edgemem
