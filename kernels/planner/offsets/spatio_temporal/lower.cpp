#include "planner/offsets/spatio_temporal/lower.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <tuple>

namespace edgemem::spatio_temporal {

namespace {

// The highest byte that is taken at each moment: raising a range of moments, and the highest of a range.
class Skyline {
 public:
  explicit Skyline(std::size_t moments)
      : leaves_(std::bit_ceil(std::max<std::size_t>(moments, 1))), somewhere_(2 * leaves_), everywhere_(2 * leaves_) {}

  std::int64_t highest(std::size_t begin, std::size_t end) const {
    std::int64_t found = 0;
    std::size_t low = leaves_ + begin;
    std::size_t high = leaves_ + end - 1;
    // What was raised as a whole above the two ends, then the nodes between them.
    for (std::size_t node = low; node > 0; node /= 2) found = std::max(found, everywhere_[node]);
    for (std::size_t node = high; node > 0; node /= 2) found = std::max(found, everywhere_[node]);
    for (found = std::max({found, somewhere_[low], somewhere_[high]}); high - low > 1; low /= 2, high /= 2) {
      if (low % 2 == 0) found = std::max(found, somewhere_[low + 1]);
      if (high % 2 == 1) found = std::max(found, somewhere_[high - 1]);
    }
    return found;
  }

  // `top` is not below what is taken there.
  void raise(std::size_t begin, std::size_t end, std::int64_t top) {
    std::size_t low = leaves_ + begin;
    std::size_t high = leaves_ + end - 1;
    cover(low, top);
    cover(high, top);
    for (; low > 1; low /= 2, high /= 2) {
      if (high - low > 1) {
        if (low % 2 == 0) cover(low + 1, top);
        if (high % 2 == 1) cover(high - 1, top);
      }
      somewhere_[low / 2] = std::max(somewhere_[low / 2], top);
      somewhere_[high / 2] = std::max(somewhere_[high / 2], top);
    }
  }

 private:
  void cover(std::size_t node, std::int64_t top) {
    somewhere_[node] = std::max(somewhere_[node], top);
    everywhere_[node] = std::max(everywhere_[node], top);
  }

  std::size_t leaves_;
  std::vector<std::int64_t> somewhere_;   // the highest below a node
  std::vector<std::int64_t> everywhere_;  // what all below a node have been raised to at least
};

}  // namespace

std::vector<std::int64_t> lowered(const Records& records, const std::vector<std::int64_t>& offsets) {
  std::vector<std::int64_t> moments;  // where a record begins: no two records meet elsewhere first
  for (std::size_t i = 0; i < records.count(); ++i) moments.push_back(records.first[i]);
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(offsets[a], records.first[a], a) < std::tuple(offsets[b], records.first[b], b);
  });
  std::vector<std::int64_t> found = offsets;
  Skyline skyline(moments.size());
  std::size_t range = 0;
  for (const std::size_t i : order) {
    for (; range < records.reserved.size() && records.reserved[range] <= offsets[i]; range += 2) {
      skyline.raise(0, moments.size(), records.reserved[range + 1]);
    }
    const auto begin =
        static_cast<std::size_t>(std::lower_bound(moments.begin(), moments.end(), records.first[i]) - moments.begin());
    const auto end =
        static_cast<std::size_t>(std::upper_bound(moments.begin(), moments.end(), records.last[i]) - moments.begin());
    if (!records.is_pinned(i)) found[i] = skyline.highest(begin, end);
    skyline.raise(begin, end, found[i] + records.padded(i));
  }
  return found;
}

}  // namespace edgemem::spatio_temporal
