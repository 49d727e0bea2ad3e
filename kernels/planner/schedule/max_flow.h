// The most that flows from one node of a network to another, and the least cut between them.
//
//           3
//      a ------> b          push(s, t) = 4: the cut {s, a} | {b, t} has the capacities 3 and 1
//   5 ^ \        | 9
//    /   1\      v
//   s      +---> t
//
// Dinic 1970: in rounds, along shortest paths only. The buffers are kept from network to network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace edgemem::schedule {

class MaxFlow {
 public:
  using Node = std::int32_t;
  // More than any cut that counts. Sums of capacities must stay below it.
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

  // Begins a network of so many nodes and no arcs.
  void reset(std::size_t nodes);
  Node add_node() { return static_cast<Node>(nodes_++); }
  void connect(Node from, Node to, std::int64_t capacity);

  // Pushes more flow from one node to another, `enough` at most, and returns how much. Less than `enough` is all that
  // goes: then the cut is least. The network takes no arcs after the first push.
  std::int64_t push(Node from, Node to, std::int64_t enough = kUnlimited);
  // After a push of less than was enough: whether the node is on the sink's side of the least cut. Of several such cuts
  // it is the one nearest to the sink.
  bool is_behind(Node node) const { return level_[static_cast<std::size_t>(node)] >= 0; }

  // Takes back what is pushed from now on: `take_back` makes the network as it was at `mark`.
  void mark();
  void take_back();

  // Arcs looked at since the object was made: the same on every machine.
  std::int64_t work() const { return work_; }

 private:
  struct Arc {
    Node to;
    std::int32_t reverse;  // its number
    std::int64_t left;     // capacity that is not used
  };
  struct Given {
    Node from;
    Node to;
    std::int64_t capacity;
  };
  struct Change {
    std::int32_t arc;
    std::int64_t left;
  };

  void build();
  bool measure(Node from, Node to);
  std::int64_t push_along_levels(Node from, Node to, std::int64_t enough);
  void use(std::int32_t arc, std::int64_t flow);

  std::size_t nodes_ = 0;
  bool built_ = false;
  bool marked_ = false;
  std::vector<Given> given_;
  std::vector<std::int32_t> begin_;  // of each node's arcs
  std::vector<Arc> arcs_;
  std::vector<std::int32_t> next_;   // of each node: the first arc that may still lead on
  std::vector<std::int32_t> level_;  // of each node: arcs to the sink; -1: it is not reached
  std::vector<Node> queue_;
  std::vector<std::int32_t> path_;  // arcs
  std::vector<Change> changes_;
  std::int64_t work_ = 0;
};

}  // namespace edgemem::schedule
