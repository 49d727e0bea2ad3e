// Each kernel against a slow, literal counterpart on small random records.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/positional_maxima.h"
#include "tests/check.h"
#include "tests/object_instance.h"
#include "tests/registry.h"

namespace {

using edgemem::ObjectRecords;
using edgemem::Pick;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

ObjectInstance random_records(std::mt19937_64& random, std::size_t rank) {
  const auto below = [&random](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  ObjectInstance made;
  made.rank = rank;
  const std::int64_t count = below(14);
  const std::int64_t ops = 1 + below(below(3) == 0 ? 2000 : 12);
  const std::int64_t length = 1 + below(ops);
  const std::int64_t sizes = 1 + below(rank == 1 ? 40 : 6);
  for (std::int64_t i = 0; i < count; ++i) {
    made.first.push_back(below(ops));
    made.last.push_back(made.first.back() + below(length));
    for (std::size_t d = 0; d < rank; ++d) made.extent.push_back(below(sizes));
  }
  if (below(2) == 0) std::sort(made.first.begin(), made.first.end());
  for (std::size_t i = 0; i < made.count(); ++i) made.last[i] = std::max(made.last[i], made.first[i]);
  return made;
}

bool free_for(const ObjectInstance& records, const Values& assignment, std::int64_t object, std::size_t record) {
  for (std::size_t x = 0; x < records.count(); ++x) {
    if (assignment[x] == object && records.conflict(x, record)) return false;
  }
  return true;
}

// Numbered in order of creation, and without two records in one object at a time.
void check_valid(const ObjectInstance& records, const Values& assignment) {
  CHECK(assignment.size() == records.count());
  const std::int64_t objects = assignment.empty() ? 0 : *std::max_element(assignment.begin(), assignment.end()) + 1;
  for (std::int64_t object = 0; object < objects; ++object) {
    CHECK(std::count(assignment.begin(), assignment.end(), object) > 0);
  }
  for (std::size_t a = 0; a < records.count(); ++a) {
    CHECK(assignment[a] >= 0);
    for (std::size_t b = 0; b < a; ++b) {
      CHECK(assignment[a] != assignment[b] || !records.conflict(a, b));
    }
  }
}

Values slow_positional_maxima(const ObjectInstance& records) {
  const std::int64_t ops = records.last.empty() ? 0 : *std::max_element(records.last.begin(), records.last.end()) + 1;
  Values maxima;
  for (std::int64_t op = 0; op < ops; ++op) {
    Values profile;
    for (std::size_t i = 0; i < records.count(); ++i) {
      if (records.first[i] <= op && op <= records.last[i]) profile.push_back(records.content(i));
    }
    std::sort(profile.rbegin(), profile.rend());
    if (profile.size() > maxima.size()) maxima.resize(profile.size(), 0);
    for (std::size_t i = 0; i < profile.size(); ++i) maxima[i] = std::max(maxima[i], profile[i]);
  }
  return maxima;
}

Values slow_in_order(const ObjectInstance& records, const Values& order, Pick pick) {
  Values assignment(records.count(), -1);
  std::vector<Sides> objects;
  for (const std::int64_t next : order) {
    const auto record = static_cast<std::size_t>(next);
    std::size_t best = objects.size();
    std::vector<std::int64_t> best_key;
    for (std::size_t object = 0; object < objects.size(); ++object) {
      const std::int64_t now = volume(objects[object]);
      const std::int64_t growth = volume(cover(objects[object], records.sides(record))) - now;
      if (growth > records.content(record)) continue;
      if (!free_for(records, assignment, static_cast<std::int64_t>(object), record)) continue;
      std::vector<std::int64_t> key{growth};
      if (pick == Pick::kClosest) key.push_back(now);
      if (best == objects.size() || key < best_key) {
        best = object;
        best_key = key;
      }
    }
    if (best == objects.size()) objects.push_back(records.sides(record));
    objects[best] = cover(objects[best], records.sides(record));
    assignment[record] = static_cast<std::int64_t>(best);
  }
  return assignment;
}

// With a full table of distances, kept as TFLite GPU keeps its (bytes only: there every free object is suitable).
Values slow_nearest(const ObjectInstance& records, const Values& stage, bool new_first) {
  const std::size_t n = records.count();
  Values assignment(n, -1);
  std::vector<Values> distance(n);
  Values best(n, kNever);
  std::vector<std::size_t> wanted(n, 0);
  std::size_t objects = 0;
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t chosen = n;
    std::vector<std::int64_t> chosen_key;
    for (std::size_t i = 0; i < n; ++i) {
      if (assignment[i] >= 0) continue;
      const std::vector<std::int64_t> key{stage[i], new_first && best[i] == kNever ? -1 : best[i], -records.content(i)};
      if (chosen == n || key < chosen_key) {
        chosen = i;
        chosen_key = key;
      }
    }
    const bool opens = best[chosen] == kNever;
    const std::size_t object = opens ? objects++ : wanted[chosen];
    assignment[chosen] = static_cast<std::int64_t>(object);
    for (std::size_t i = 0; i < n; ++i) {
      if (assignment[i] >= 0) continue;
      if (opens) distance[i].push_back(0);
      if (!opens && distance[i][object] == kNever) continue;
      std::int64_t gap = kNever;
      if (!records.conflict(i, chosen)) {
        gap = records.last[i] < records.first[chosen] ? records.first[chosen] - records.last[i]
                                                      : records.first[i] - records.last[chosen];
      }
      if (opens || gap == kNever) {
        distance[i][object] = gap;
        if (!opens && wanted[i] == object) {
          const auto nearest = std::min_element(distance[i].begin(), distance[i].end());
          best[i] = *nearest;
          wanted[i] = static_cast<std::size_t>(nearest - distance[i].begin());
        }
      } else {
        distance[i][object] = std::min(distance[i][object], gap);
      }
      if (gap < best[i]) {
        best[i] = gap;
        wanted[i] = object;
      }
    }
  }
  return assignment;
}

// The network with explicit edges and the search of Lee et al. 2019, bytes only, records in order of first_op.
Values slow_flow(const ObjectInstance& records) {
  struct Edge {
    std::size_t to;
    std::int64_t capacity;
    std::int64_t cost;
  };
  const std::size_t n = records.count();
  const std::size_t source = 2 * n;
  const std::size_t sink = source + 1;
  std::vector<Edge> edges;
  std::vector<std::vector<std::size_t>> leaving(sink + 1);
  const auto connect = [&](std::size_t from, std::size_t to, std::int64_t cost) {
    leaving[from].push_back(edges.size());
    edges.push_back({to, 1, cost});
    leaving[to].push_back(edges.size());
    edges.push_back({from, 0, -cost});
  };
  std::vector<std::size_t> over;  // records that are no longer used, in order of (last_op, index)
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::size_t> ended;
    for (std::size_t j = 0; j < i; ++j) {
      if (records.last[j] < records.first[i] && std::count(over.begin(), over.end(), j) == 0) ended.push_back(j);
    }
    std::stable_sort(ended.begin(), ended.end(),
                     [&](std::size_t a, std::size_t b) { return records.last[a] < records.last[b]; });
    over.insert(over.end(), ended.begin(), ended.end());
    connect(source, i, 0);
    connect(n + i, sink, 0);
    connect(source, n + i, records.extent[i]);
    for (const std::size_t j : over) {
      connect(j, n + i, std::max<std::int64_t>(records.extent[i] - records.extent[j], 0));
    }
  }
  while (true) {
    Values distance(sink + 1, kNever);
    std::vector<std::size_t> through(sink + 1);
    std::vector<std::size_t> now{source};
    distance[source] = 0;
    while (!now.empty()) {
      std::vector<std::size_t> later;
      std::vector<bool> queued(sink + 1, false);
      for (const std::size_t vertex : now) {
        for (const std::size_t e : leaving[vertex]) {
          const Edge& edge = edges[e];
          if (edge.capacity == 0 || distance[vertex] + edge.cost >= distance[edge.to]) continue;
          distance[edge.to] = distance[vertex] + edge.cost;
          through[edge.to] = e;
          if (!queued[edge.to]) later.push_back(edge.to);
          queued[edge.to] = true;
        }
      }
      now = later;
    }
    if (distance[sink] == kNever) break;
    for (std::size_t vertex = sink; vertex != source; vertex = edges[through[vertex] ^ 1].to) {
      --edges[through[vertex]].capacity;
      ++edges[through[vertex] ^ 1].capacity;
    }
  }
  Values assignment(n, -1);
  std::int64_t objects = 0;
  for (const std::size_t start : leaving[source]) {
    if (edges[start].to < n || edges[start].capacity != 0) continue;
    std::size_t record = edges[start].to - n;
    bool more = true;
    while (more) {
      assignment[record] = objects;
      more = false;
      for (const std::size_t e : leaving[record]) {
        if (e % 2 == 0 && edges[e].capacity == 0) {
          record = edges[e].to - n;
          more = true;
          break;
        }
      }
    }
    ++objects;
  }
  return assignment;
}

std::int64_t total(const ObjectInstance& records, const Values& assignment) {
  std::vector<Sides> objects(records.count(), Sides{0, 0, 0});
  for (std::size_t i = 0; i < records.count(); ++i) {
    auto& object = objects[static_cast<std::size_t>(assignment[i])];
    object = cover(object, records.sides(i));
  }
  std::int64_t sum = 0;
  for (const Sides& object : objects) sum += volume(object);
  return sum;
}

std::int64_t naive(const ObjectInstance& records) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < records.count(); ++i) sum += records.content(i);
  return sum;
}

TEST(shared_objects_equal_their_literal_counterparts) {
  std::mt19937_64 random(20240917);
  for (int round = 0; round < 3000; ++round) {
    const ObjectInstance made = random_records(random, 1 + static_cast<std::size_t>(round % 3));
    const ObjectRecords records = made.records();
    Values content;
    for (std::size_t i = 0; i < made.count(); ++i) content.push_back(made.content(i));
    const Values maxima = edgemem::positional_maxima({made.first, made.last, content});
    CHECK(maxima == slow_positional_maxima(made));

    Values order(made.count());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const Pick pick : {Pick::kFirst, Pick::kClosest}) {
      const Values assignment = edgemem::assign_in_order(records, order, pick);
      CHECK(assignment == slow_in_order(made, order, pick));
      check_valid(made, assignment);
      CHECK(total(made, assignment) <= naive(made));
    }

    Values stage;
    for (const std::int64_t size : content) {
      stage.push_back(std::count_if(maxima.begin(), maxima.end(), [size](std::int64_t m) { return m >= size; }));
    }
    for (const bool new_first : {false, true}) {
      const Values assignment = edgemem::assign_nearest(records, stage, new_first);
      check_valid(made, assignment);
      CHECK(total(made, assignment) <= naive(made));
      CHECK(made.rank > 1 || assignment == slow_nearest(made, stage, new_first));
    }

    const Values flow = edgemem::assign_by_min_cost_flow(records);
    check_valid(made, flow);
    CHECK(total(made, flow) <= naive(made));
    if (made.rank == 1 && std::is_sorted(made.first.begin(), made.first.end())) {
      CHECK(flow == slow_flow(made));
    }
  }
}

// More records than one block of the flow's search and more operators than the objects' 64 buckets.
TEST(shared_objects_of_longer_records) {
  std::mt19937_64 random(7);
  for (const std::int64_t length : {3, 40, 400}) {
    ObjectInstance made;
    for (std::int64_t i = 0; i < 200; ++i) {
      made.first.push_back(2 * i);
      made.last.push_back(2 * i + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(length)));
      made.extent.push_back(static_cast<std::int64_t>(random() % 50));
    }
    Values order(made.count());
    std::iota(order.begin(), order.end(), 0);
    CHECK(edgemem::assign_by_min_cost_flow(made.records()) == slow_flow(made));
    CHECK(edgemem::assign_in_order(made.records(), order, Pick::kClosest) ==
          slow_in_order(made, order, Pick::kClosest));
    const Values stage(made.count(), 0);
    CHECK(edgemem::assign_nearest(made.records(), stage, false) == slow_nearest(made, stage, false));
  }
}

TEST(shared_objects_stay_within_int64) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  // The covering extents of such pairs have more texels than int64 holds: every kernel keeps them apart.
  ObjectInstance crossed;
  crossed.rank = 2;
  crossed.first = {0, 2, 4};
  crossed.last = {0, kNever - 1, 5};
  crossed.extent = {kLarge, 1, 1, kLarge, 1, 1};
  const Values order{0, 1, 2};
  CHECK((edgemem::assign_in_order(crossed.records(), order, Pick::kFirst) == Values{0, 1, 0}));
  CHECK((edgemem::assign_nearest(crossed.records(), Values{0, 0, 0}, false) == Values{0, 1, 0}));
  CHECK((edgemem::assign_by_min_cost_flow(crossed.records()) == Values{0, 1, 0}));

  // Every record differs little from the next, but one object for the whole chain would have 9^22 texels.
  ObjectInstance chain;
  chain.rank = 2;
  Values powers{1};
  for (int i = 0; i < 22; ++i) powers.push_back(3 * powers.back());
  for (std::int64_t i = 0; i <= 22; ++i) {
    const auto at = static_cast<std::size_t>(i);
    chain.first.push_back(i);
    chain.last.push_back(i);
    chain.extent.push_back(powers[at] << (22 - i));
    chain.extent.push_back(powers[22 - at] << i);
  }
  const Values flow = edgemem::assign_by_min_cost_flow(chain.records());
  check_valid(chain, flow);
  CHECK(flow.back() > 0);
  CHECK(total(chain, flow) < naive(chain));
}

TEST(shared_objects_refuse_impossible_records) {
  const Values none;
  const Values one{1};
  const Values zero{0};
  const Values two{0, 0};
  CHECK((edgemem::positional_maxima({none, none, none}).empty()));
  CHECK((edgemem::assign_by_min_cost_flow({none, none, none, 1}).empty()));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({zero, zero, zero, 4})));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({zero, zero, two, 1})));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({one, zero, zero, 1})));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({zero, zero, Values{-1}, 1})));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({Values{-1}, zero, zero, 1})));
  CHECK_REFUSED((edgemem::assign_by_min_cost_flow({two, two, Values{kNever, kNever}, 1})));
  CHECK_REFUSED((edgemem::assign_in_order({two, two, two, 1}, two, Pick::kFirst)));
  CHECK_REFUSED((edgemem::assign_nearest({two, two, two, 1}, zero, false)));
}

}  // namespace
