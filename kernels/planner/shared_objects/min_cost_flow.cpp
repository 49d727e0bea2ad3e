#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/object_records.h"

namespace edgemem {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::int64_t kUnreached = kInt64Max;

// The flow network of Lee et al. 2019: a unit from the source opens an object for record i (edge to "needs i", cost
// size i), or takes over the object of a record j that is no longer used (edges to "gives j" and from there to
// "needs i", cost of the growth); every record must be served once. Edges are implicit: j can give to all records from
// `heirs_from_[j]` on, because the records come in order of first_op.
//
// The cheapest flow is not unique, and which one is found decides the sizes. So the search visits vertices and edges
// exactly as TFLite GPU's does: the shortest path faster algorithm in rounds, edges in order of their making.
template <std::size_t Rank>
class Flow {
 public:
  Flow(const ObjectRecords& records, const std::vector<std::size_t>& order, Poll poll)
      : count_(order.size()), poll_(std::move(poll)) {
    extents_.reserve(count_);
    content_.reserve(count_);
    for (const std::size_t i : order) {
      extents_.push_back(extent_of<Rank>(records, i));
      content_.push_back(content(extents_.back()));
      heirs_from_.push_back(static_cast<std::size_t>(
          std::partition_point(order.begin(), order.end(),
                               [&](std::size_t other) { return records.first[other] <= records.last[i]; }) -
          order.begin()));
    }
    giver_.assign(count_, kNone);
    heir_.assign(count_, kNone);
    opened_.assign(count_, false);
  }

  // The record that takes over the object of each one, or kNone.
  const std::vector<std::size_t>& solve() {
    while (find_path()) push_along_path();
    return heir_;
  }

 private:
  // 64 neighbouring records, as they were when last scanned. A giver j gains nothing here when it is no nearer than the
  // farthest of them, nor when its offer, content less distance, is no more than the least they have: growth costs at
  // least the difference in content. Distances only fall, so an old block promises too much, never too little.
  struct Block {
    std::int64_t farthest = std::numeric_limits<std::int64_t>::min();
    std::int64_t least_offer = kInt64Max;  // of those at a positive distance; says nothing about a negative one
  };

  // Vertices: "gives j" is j, "needs i" is count_ + i, then source and sink.
  std::size_t needs(std::size_t i) const { return count_ + i; }
  std::size_t source() const { return 2 * count_; }
  std::size_t sink() const { return 2 * count_ + 1; }
  bool served(std::size_t i) const { return opened_[i] || giver_[i] != kNone; }

  // kUnreached where taking over costs more than a new object; bytes never do.
  std::int64_t growth(std::size_t j, std::size_t i) const {
    if constexpr (Rank == 1) {
      return std::max<std::int64_t>(content_[i] - content_[j], 0);
    } else {
      const std::int64_t grown = content(cover(extents_[j], extents_[i])) - content_[j];
      return grown > content_[i] ? kUnreached : grown;
    }
  }

  void relax(std::size_t from, std::size_t to, std::int64_t cost) {
    const std::int64_t reached = distance_[from] + cost;
    if (reached >= distance_[to]) return;
    distance_[to] = reached;
    previous_[to] = from;
    if (queued_in_[to] != round_) {
      next_.push_back(to);
      queued_in_[to] = round_;
    }
  }

  bool find_path() {
    distance_.assign(2 * count_ + 2, kUnreached);
    previous_.assign(2 * count_ + 2, kNone);
    queued_in_.assign(2 * count_ + 2, 0);
    blocks_.assign(count_ / kBlock + 1, {kUnreached, -kUnreached});
    distance_[source()] = 0;
    current_ = {source()};
    for (round_ = 1; !current_.empty(); ++round_) {
      next_.clear();
      for (const std::size_t vertex : current_) {
        poll_.step();
        visit(vertex);
      }
      current_.swap(next_);
    }
    return distance_[sink()] != kUnreached;
  }

  // Nothing leads back to the source: it is reached for nothing, and no cycle costs less.
  void visit(std::size_t vertex) {
    if (vertex == source()) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (heir_[i] == kNone) relax(source(), i, 0);
        if (!opened_[i]) relax(source(), needs(i), content_[i]);
      }
    } else if (vertex == sink()) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (served(i)) relax(sink(), needs(i), 0);
      }
    } else if (vertex < count_) {
      visit_giver(vertex);
    } else {
      const std::size_t i = vertex - count_;
      if (!served(i)) relax(vertex, sink(), 0);
      if (giver_[i] != kNone) relax(vertex, giver_[i], -growth(giver_[i], i));
    }
  }

  void visit_giver(std::size_t j) {
    const std::int64_t distance = distance_[j];
    for (std::size_t from = heirs_from_[j]; from < count_;) {
      Block& block = blocks_[from / kBlock];
      const std::size_t end = std::min((from / kBlock + 1) * kBlock, count_);
      if (distance < block.farthest && (distance < 0 || block.least_offer < content_[j] - distance)) {
        for (std::size_t i = from; i < end; ++i) {
          if (distance >= distance_[needs(i)] || i == heir_[j]) continue;
          const std::int64_t cost = growth(j, i);
          if (cost != kUnreached) relax(j, needs(i), cost);
        }
        block = look_at(from / kBlock * kBlock, end);
      }
      from = end;
    }
  }

  Block look_at(std::size_t begin, std::size_t end) const {
    Block block;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t reached = distance_[needs(i)];
      block.farthest = std::max(block.farthest, reached);
      if (reached > 0) block.least_offer = std::min(block.least_offer, content_[i] - reached);
    }
    return block;
  }

  void push_along_path() {
    for (std::size_t vertex = sink(); vertex != source();) {
      const std::size_t from = previous_[vertex];
      if (vertex >= count_ && vertex < source()) {
        const std::size_t i = vertex - count_;
        if (from == source()) {
          opened_[i] = true;
          giver_[i] = kNone;
        } else {
          giver_[i] = from;
          heir_[from] = i;
        }
      }
      vertex = from;
    }
  }

  static constexpr std::size_t kBlock = 64;

  std::size_t count_;
  Poll poll_;
  std::vector<Extent<Rank>> extents_;
  std::vector<std::int64_t> content_;
  std::vector<std::size_t> heirs_from_;
  std::vector<std::size_t> giver_;  // the flow: whose object record i takes over
  std::vector<std::size_t> heir_;   // and its inverse
  std::vector<bool> opened_;
  std::vector<std::int64_t> distance_;
  std::vector<std::size_t> previous_;
  std::vector<std::size_t> queued_in_;  // the round that last queued a vertex for the next one
  std::vector<Block> blocks_;
  std::vector<std::size_t> current_;
  std::vector<std::size_t> next_;
  std::size_t round_ = 0;
};

template <std::size_t Rank>
std::vector<std::int64_t> by_min_cost_flow(const ObjectRecords& records, Poll poll) {
  std::vector<std::size_t> order(records.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return records.first[a] < records.first[b]; });
  Flow<Rank> flow(records, order, std::move(poll));
  const std::vector<std::size_t>& heir = flow.solve();

  std::vector<bool> inherits(order.size(), false);
  for (const std::size_t i : heir) {
    if (i != kNone) inherits[i] = true;
  }
  std::vector<std::int64_t> assignment(order.size());
  std::int64_t objects = 0;
  for (std::size_t head = 0; head < order.size(); ++head) {
    if (inherits[head]) continue;
    Extent<Rank> extent{};
    for (std::size_t i = head; i != kNone; i = heir[i]) {
      const Extent<Rank> own = extent_of<Rank>(records, order[i]);
      const Extent<Rank> both = cover(extent, own);
      // The flow knows growth from one record to the next only; where the whole chain's object would grow by more than
      // a new one costs, the rest of the chain gets that. Bytes never do.
      if (i == head || content(both) - content(extent) > content(own)) {
        ++objects;
        extent = own;
      } else {
        extent = both;
      }
      assignment[order[i]] = objects - 1;
    }
  }
  return assignment;
}

}  // namespace

std::vector<std::int64_t> assign_by_min_cost_flow(const ObjectRecords& records, Poll poll) {
  check(records);
  switch (records.rank) {
    case 1:
      return by_min_cost_flow<1>(records, std::move(poll));
    case 2:
      return by_min_cost_flow<2>(records, std::move(poll));
    default:
      return by_min_cost_flow<3>(records, std::move(poll));
  }
}

}  // namespace edgemem
