#include <algorithm>
#include <bit>
#include <utility>

#include "proof/bounds.h"

namespace edgemem::proof {
namespace {

// The depth at every moment: how many of the records added so far are alive. Each node holds what was added to the
// whole of it, and the greatest depth below it without what was added above.
class Depth {
 public:
  explicit Depth(std::size_t moments)
      : leaves_(std::bit_ceil(std::max<std::size_t>(moments, 1))), nodes_(2 * leaves_) {}

  Value greatest() const { return nodes_[1].greatest; }

  // One more at the moments [begin, end), which are not none.
  void add(std::size_t begin, std::size_t end) {
    std::size_t low = begin + leaves_;
    std::size_t high = end - 1 + leaves_;
    raise(low);
    if (high != low) raise(high);
    for (; low / 2 != high / 2 && low != high; low /= 2, high /= 2, count(low), count(high)) {
      if (low % 2 == 0) raise(low + 1);
      if (high % 2 == 1) raise(high - 1);
    }
    while ((low /= 2) > 0 && count(low)) continue;
  }

 private:
  struct Node {
    Index added = 0;
    Index greatest = 0;
  };

  void raise(std::size_t at) {
    ++nodes_[at].added;
    ++nodes_[at].greatest;
  }

  // Whether that changes anything.
  bool count(std::size_t at) {
    const Index greatest = nodes_[at].added + std::max(nodes_[2 * at].greatest, nodes_[2 * at + 1].greatest);
    return std::exchange(nodes_[at].greatest, greatest) != greatest;
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace

// With the records of at least a size alone, the greatest depth says how many positional maxima are at least that size.
Value objects_bound(const Records& records) {
  check(records);
  // Depths only grow where a record begins, so these are all moments that matter.
  std::vector<Index> begin(records.count()), end(records.count());
  Index moments = 0;
  const Order births = order_by(records.first, records);
  std::size_t born = 0;
  for (const auto& [op, record] : order_by(records.last, records)) {
    for (; born < births.size() && births[born].first <= op; ++born) {
      moments += born == 0 || births[born].first != births[born - 1].first ? 1 : 0;
      begin[births[born].second] = moments - 1;
    }
    end[record] = moments;
  }
  Depth depth(moments);
  const Order by_size = order_by(records.size, records);
  Value sum = 0;
  Value reached = 0;
  for (auto at = by_size.rbegin(); at != by_size.rend(); ++at) {
    depth.add(begin[at->second], end[at->second]);
    sum += at->first * (depth.greatest() - reached);
    reached = depth.greatest();
  }
  return sum;
}

Value naive_size(const Records& records) {
  check(records);
  Value end = 0;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] > 0) end = ((end + records.alignment - 1) & -records.alignment) + records.size[i];
  }
  return end;
}

}  // namespace edgemem::proof
