#include "planner/offsets/lifetime_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace edgemem {

namespace {

constexpr std::size_t kPointsPerLeaf = 8;

}  // namespace

LifetimeTree::LifetimeTree(std::vector<Point> points) : points_(std::move(points)) {
  leaves_ = std::bit_ceil(points_.size() / kPointsPerLeaf + 1);
  nodes_.resize(2 * leaves_);
  bounds_.assign(leaves_ + 1, points_.size());
  leaf_of_rank_.resize(points_.size());
  removed_.assign(points_.size(), false);
  build(1, 0, points_.size(), true);
}

void LifetimeTree::build(std::size_t node, std::size_t begin, std::size_t end, bool by_first) {
  Node& here = nodes_[node];
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  here = {kMax, -1, kMax, -1, kNone};  // an empty node lies within no interval
  for (std::size_t i = begin; i < end; ++i) {
    here.min_first = std::min(here.min_first, points_[i].first);
    here.max_first = std::max(here.max_first, points_[i].first);
    here.min_last = std::min(here.min_last, points_[i].last);
    here.max_last = std::max(here.max_last, points_[i].last);
    here.best = std::min(here.best, points_[i].rank);
  }
  if (node >= leaves_) {
    bounds_[node - leaves_] = begin;
    for (std::size_t i = begin; i < end; ++i) {
      leaf_of_rank_[static_cast<std::size_t>(points_[i].rank)] = static_cast<std::uint32_t>(node - leaves_);
    }
    return;
  }
  const std::size_t middle = begin + (end - begin) / 2;
  const auto at = [&](std::size_t i) { return points_.begin() + static_cast<std::ptrdiff_t>(i); };
  std::nth_element(at(begin), at(middle), at(end), [by_first](const Point& a, const Point& b) {
    return by_first ? a.first < b.first : a.last < b.last;
  });
  build(2 * node, begin, middle, !by_first);
  build(2 * node + 1, middle, end, !by_first);
}

std::int32_t LifetimeTree::best_within(std::int64_t begin, std::int64_t end) const {
  std::int32_t best = kNone;
  search(1, begin, end, best);
  return best;
}

void LifetimeTree::search(std::size_t node, std::int64_t begin, std::int64_t end, std::int32_t& best) const {
  const Node& here = nodes_[node];
  if (here.best >= best || here.max_first < begin || here.min_last > end) return;
  if (here.min_first >= begin && here.max_last <= end) {
    best = here.best;
    return;
  }
  if (node >= leaves_) {
    for (std::size_t i = bounds_[node - leaves_]; i < bounds_[node - leaves_ + 1]; ++i) {
      const Point& point = points_[i];
      if (point.rank < best && point.first >= begin && point.last <= end &&
          !removed_[static_cast<std::size_t>(point.rank)]) {
        best = point.rank;
      }
    }
    return;
  }
  const bool swap = nodes_[2 * node + 1].best < nodes_[2 * node].best;
  search(2 * node + (swap ? 1 : 0), begin, end, best);
  search(2 * node + (swap ? 0 : 1), begin, end, best);
}

std::int32_t LifetimeTree::best_of_leaf(std::size_t leaf) const {
  std::int32_t best = kNone;
  for (std::size_t i = bounds_[leaf]; i < bounds_[leaf + 1]; ++i) {
    if (!removed_[static_cast<std::size_t>(points_[i].rank)]) best = std::min(best, points_[i].rank);
  }
  return best;
}

void LifetimeTree::remove(std::int32_t rank) {
  removed_[static_cast<std::size_t>(rank)] = true;
  const std::size_t leaf = leaf_of_rank_[static_cast<std::size_t>(rank)];
  std::size_t node = leaves_ + leaf;
  nodes_[node].best = best_of_leaf(leaf);
  while (node > 1) {
    node /= 2;
    nodes_[node].best = std::min(nodes_[2 * node].best, nodes_[2 * node + 1].best);
  }
}

}  // namespace edgemem
