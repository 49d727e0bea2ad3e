// Bytes that are taken by pinned records and reserved ranges, and how far up others must go around them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "proof/records.h"

namespace edgemem::proof {

// The address space, cut at every end of a range that will ever be taken. Ranges may overlap. O(log n) each.
class Room {
 public:
  // `cuts` holds both ends of every range, in any order.
  explicit Room(std::vector<Value> cuts) : cuts_(std::move(cuts)) {
    cuts_.push_back(0);
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    leaves_ = std::bit_ceil(cuts_.size());
    nodes_.resize(2 * leaves_);
    for (std::size_t k = 0; k + 1 < cuts_.size(); ++k) nodes_[leaves_ + k].free = cuts_[k + 1] - cuts_[k];
    for (std::size_t at = leaves_; --at > 0;) nodes_[at].free = nodes_[2 * at].free + nodes_[2 * at + 1].free;
  }

  void take(Value begin, Value end) { add(begin, end, 1); }
  void give(Value begin, Value end) { add(begin, end, -1); }

  // Bytes that are taken, by however many ranges.
  Value taken() const { return cuts_.back() - nodes_[1].free; }

  // The lowest address below which `need` > 0 bytes are not taken.
  Value reach(Value need) const {
    if (nodes_[1].free < need) return cuts_.back() + (need - nodes_[1].free);
    std::size_t at = 1;
    while (at < leaves_) {
      at *= 2;
      if (nodes_[at].free < need) need -= nodes_[at++].free;
    }
    return cuts_[at - leaves_] + need;
  }

 private:
  struct Node {
    Value taken = 0;  // ranges over all of it, that are not counted further up
    Value free = 0;
  };

  std::size_t piece(Value cut) const {
    return static_cast<std::size_t>(std::lower_bound(cuts_.begin(), cuts_.end(), cut) - cuts_.begin());
  }

  void add(Value begin, Value end, Value times) {
    if (begin >= end) return;
    std::size_t low = piece(begin) + leaves_;
    std::size_t high = piece(end) + leaves_;
    const std::size_t first = low;
    const std::size_t last = high - 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) change(low++, times);
      if (high % 2 == 1) change(--high, times);
    }
    for (std::size_t at = first; at /= 2;) count(at);
    for (std::size_t at = last; at /= 2;) count(at);
  }

  void change(std::size_t at, Value times) {
    nodes_[at].taken += times;
    count(at);
  }

  void count(std::size_t at) {
    Node& node = nodes_[at];
    if (node.taken > 0) {
      node.free = 0;
    } else if (at < leaves_) {
      node.free = nodes_[2 * at].free + nodes_[2 * at + 1].free;
    } else {
      const std::size_t k = at - leaves_;
      node.free = k + 1 < cuts_.size() ? cuts_[k + 1] - cuts_[k] : 0;
    }
  }

  std::vector<Value> cuts_;
  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace edgemem::proof
