// The preferred record among those whose lifetime lies within an interval: a k-d tree over (first, last).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace edgemem {

class LifetimeTree {
 public:
  struct Point {
    std::int64_t first;
    std::int64_t last;
    std::int32_t rank;  // the lower, the more preferred; each from 0 to n - 1 once
  };
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();

  explicit LifetimeTree(std::vector<Point> points);

  // The lowest rank with begin <= first and last <= end that was not removed, or kNone.
  std::int32_t best_within(std::int64_t begin, std::int64_t end) const;
  void remove(std::int32_t rank);

 private:
  struct Node {  // bounds of all its points, the best rank of those that are left
    std::int64_t min_first, max_first, min_last, max_last;
    std::int32_t best = kNone;
  };

  void build(std::size_t node, std::size_t begin, std::size_t end, bool by_first);
  void search(std::size_t node, std::int64_t begin, std::int64_t end, std::int32_t& best) const;
  std::int32_t best_of_leaf(std::size_t leaf) const;

  std::vector<Point> points_;
  std::vector<Node> nodes_;          // a heap with the root at 1; the leaves hold equal parts of points_
  std::vector<std::size_t> bounds_;  // of the leaves in points_
  std::vector<std::uint32_t> leaf_of_rank_;
  std::vector<bool> removed_;
  std::size_t leaves_ = 1;
};

}  // namespace edgemem
