#include "planner/schedule/max_flow.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::schedule::MaxFlow;

struct Arc {
  int from;
  int to;
  std::int64_t capacity;
};

struct Network {
  int nodes;
  std::vector<Arc> arcs;

  // The capacity of the cut around a set of nodes.
  std::int64_t cut(unsigned inside) const {
    std::int64_t sum = 0;
    for (const Arc& arc : arcs) {
      if ((inside >> arc.from & 1U) != 0 && (inside >> arc.to & 1U) == 0) sum += arc.capacity;
    }
    return sum;
  }

  // The least cut with all of `with` inside and all of `without` outside.
  std::int64_t least_cut(unsigned with, unsigned without) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (unsigned inside = 0; inside < 1U << nodes; ++inside) {
      if ((inside & with) == with && (inside & without) == 0) least = std::min(least, cut(inside));
    }
    return least;
  }

  void give(MaxFlow* flow) const {
    flow->reset(static_cast<std::size_t>(nodes));
    for (const Arc& arc : arcs) flow->connect(arc.from, arc.to, arc.capacity);
  }
};

int below(std::mt19937_64* random, int limit) {
  return static_cast<int>((*random)() % static_cast<std::uint64_t>(limit));
}

Network random_network(std::mt19937_64* random) {
  Network network{2 + below(random, 8), {}};
  const int count = below(random, 3 * network.nodes);
  for (int k = 0; k < count; ++k) {
    const std::int64_t capacity = below(random, 4) == 0 ? 1000 : below(random, 10);
    network.arcs.push_back({below(random, network.nodes), below(random, network.nodes), capacity});
  }
  return network;
}

TEST(the_flow_is_as_large_as_the_least_cut) {
  std::mt19937_64 random(3);
  MaxFlow flow;  // one object for all: nothing of one network is left in the next
  for (int round = 0; round < rounds(3000); ++round) {
    const Network network = random_network(&random);
    network.give(&flow);
    const std::int64_t least = network.least_cut(1U, 2U);
    const std::int64_t enough = 1 + below(&random, 30);
    const std::int64_t first = flow.push(0, 1, enough);
    CHECK(first == std::min(least, enough));
    CHECK(first + flow.push(0, 1) == least);
    unsigned inside = 0;
    for (int v = 0; v < network.nodes; ++v) inside |= flow.is_behind(v) ? 0U : 1U << v;
    CHECK((inside & 3U) == 1U && network.cut(inside) == least);
  }
}

TEST(a_node_that_joins_either_side_costs_what_more_flows) {
  std::mt19937_64 random(4);
  MaxFlow flow;
  for (int round = 0; round < rounds(2000); ++round) {
    Network network = random_network(&random);
    if (network.nodes < 3) continue;
    network.give(&flow);
    const std::int64_t least = flow.push(0, 1);
    for (int v = 2; v < network.nodes; ++v) {
      flow.mark();
      CHECK(least + flow.push(v, 1) == network.least_cut(1U | 1U << v, 2U));
      flow.take_back();
      flow.mark();
      CHECK(least + flow.push(0, v) == network.least_cut(1U, 2U | 1U << v));
      flow.take_back();
    }
    CHECK(flow.push(0, 1) == 0);
  }
}

TEST(a_long_path_and_a_wide_layer) {
  MaxFlow flow;
  const int length = 20'000;
  flow.reset(length);
  for (int v = 0; v + 1 < length; ++v) flow.connect(v, v + 1, 7 + v % 5);
  CHECK(flow.push(0, length - 1) == 7);
  flow.reset(length);
  for (int v = 2; v < length; ++v) {
    flow.connect(0, v, v % 10);
    flow.connect(v, 1, 3);
  }
  std::int64_t sum = 0;
  for (int v = 2; v < length; ++v) sum += std::min(v % 10, 3);
  CHECK(flow.push(0, 1) == sum);
}

}  // namespace
