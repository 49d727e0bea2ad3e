// The records alive at one time, by the place they begin at.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "proof/records.h"

namespace edgemem::proof {

// One place for every record there is, in ascending order of where it begins; those alive are in. A tree over the
// places answers in O(log n) which of them reach a byte, and which are of another nest (see `Nesting`).
class Space {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  explicit Space(std::size_t places) : leaves_(std::bit_ceil(std::max<std::size_t>(places, 1))), nodes_(2 * leaves_) {}

  // A record whose last byte is `top`, with the numbers of its nest.
  void put(std::size_t place, Value top, Index enter, Index leave) { set(place, {top, leave, enter}); }
  void drop(std::size_t place) { set(place, Node{}); }

  // The last place before `end` with a record that reaches `byte`.
  std::size_t last_reaching(std::size_t end, Value byte) const {
    std::size_t at = end + leaves_;
    if (end == 0) return kNowhere;
    do {
      --at;
      while (at > 1 && at % 2 == 1) at /= 2;
      if (nodes_[at].top >= byte) {
        while (at < leaves_) at = 2 * at + (nodes_[2 * at + 1].top >= byte ? 1 : 0);
        return at - leaves_;
      }
    } while (!std::has_single_bit(at));
    return kNowhere;
  }

  // The first place from `begin` on with a record of another nest than the one with these numbers.
  std::size_t next_unrelated(std::size_t begin, Index enter, Index leave) const {
    if (begin >= leaves_) return kNowhere;
    const auto unrelated = [&](const Node& node) { return node.leave <= enter || node.enter >= leave; };
    std::size_t at = begin + leaves_;
    do {
      while (at % 2 == 0) at /= 2;
      if (unrelated(nodes_[at])) {
        while (at < leaves_) at = 2 * at + (unrelated(nodes_[2 * at]) ? 0 : 1);
        return at - leaves_;
      }
      ++at;
    } while (!std::has_single_bit(at));
    return kNowhere;
  }

 private:
  // The highest last byte, the lowest `leave` and the highest `enter` of those below.
  struct Node {
    Value top = std::numeric_limits<Value>::min();
    Index leave = kNone;
    Index enter = 0;
    bool operator==(const Node&) const = default;
  };

  void set(std::size_t place, const Node& node) {
    std::size_t at = place + leaves_;
    nodes_[at] = node;
    while (at /= 2) {
      const Node& a = nodes_[2 * at];
      const Node& b = nodes_[2 * at + 1];
      const Node both{std::max(a.top, b.top), std::min(a.leave, b.leave), std::max(a.enter, b.enter)};
      if (both == nodes_[at]) return;
      nodes_[at] = both;
    }
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace edgemem::proof
