// The search for shared objects against two exact solvers that share nothing with it: all partitions of few records,
// and all states of a sweep in time for some more.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "planner/shared_objects/search/search.h"
#include "tests/check.h"
#include "tests/object_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::ObjectRecords;
using edgemem::ObjectSearchLimits;
using edgemem::ObjectSearchResult;
using edgemem::search_shared_objects;
using edgemem::Stop;

ObjectInstance random_instance(std::mt19937_64& random, std::int64_t most, std::int64_t life) {
  const auto below = [&random](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  ObjectInstance instance;
  instance.rank = static_cast<std::size_t>(1 + below(3));
  const std::int64_t count = below(most + 1);
  const std::int64_t ops = 1 + below(2 * most);
  const std::int64_t longest = 1 + below(life);
  const std::int64_t sizes = 1 + below(instance.rank == 1 ? 30 : 7);
  const std::int64_t least = below(3) == 0 ? 0 : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    instance.first.push_back(below(ops));
    instance.last.push_back(instance.first.back() + below(longest));
    for (std::size_t d = 0; d < instance.rank; ++d) instance.extent.push_back(least + below(sizes));
    if (i > 0 && below(8) == 0) {  // one more of the same
      instance.first.back() = instance.first[instance.first.size() - 2];
      instance.last.back() = instance.last[instance.last.size() - 2];
      std::copy_n(instance.extent.end() - static_cast<std::ptrdiff_t>(2 * instance.rank), instance.rank,
                  instance.extent.end() - static_cast<std::ptrdiff_t>(instance.rank));
    }
  }
  return instance;
}

// Some more records than all partitions allow, but few alive at a time.
ObjectInstance random_network(std::mt19937_64& random, std::int64_t most) {
  ObjectInstance instance = random_instance(random, most, 4);
  for (std::size_t i = 0; i < instance.count(); ++i) {
    const std::int64_t life = instance.last[i] - instance.first[i];
    instance.first[i] = static_cast<std::int64_t>(i) * 2 / 3;
    instance.last[i] = instance.first[i] + life + (random() % 6 == 0 ? 4 : 0);
  }
  return instance;
}

void partitions(const ObjectInstance& instance, std::size_t next, std::vector<std::pair<Values, Sides>>& objects,
                std::int64_t& least) {
  if (next == instance.count()) {
    std::int64_t total = 0;
    for (const auto& object : objects) total += volume(object.second);
    least = std::min(least, total);
    return;
  }
  const std::size_t made = objects.size();
  for (std::size_t o = 0; o <= made; ++o) {
    if (o == made) {
      objects.push_back({{static_cast<std::int64_t>(next)}, instance.sides(next)});
      partitions(instance, next + 1, objects, least);
      objects.pop_back();
    } else if (std::none_of(objects[o].first.begin(), objects[o].first.end(), [&](std::int64_t member) {
                 return instance.conflict(static_cast<std::size_t>(member), next);
               })) {
      const Sides before = objects[o].second;
      objects[o].first.push_back(static_cast<std::int64_t>(next));
      objects[o].second = cover(before, instance.sides(next));
      partitions(instance, next + 1, objects, least);
      objects[o].first.pop_back();
      objects[o].second = before;
    }
  }
}

std::int64_t optimum_of_partitions(const ObjectInstance& instance) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<Values, Sides>> objects;
  partitions(instance, 0, objects, least);
  return least;
}

// Every way to hand the records out in order of time; of a state only the objects' sides and ends matter.
std::int64_t optimum_of_sweep(const ObjectInstance& instance) {
  std::vector<std::size_t> order(instance.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return instance.first[a] < instance.first[b]; });
  using State = std::vector<std::pair<Sides, std::int64_t>>;  // sides, last operator in use or -1
  std::set<State> states{{}};
  for (const std::size_t i : order) {
    std::set<State> next;
    for (const State& state : states) {
      for (std::size_t o = 0; o <= state.size(); ++o) {
        if (o < state.size() && state[o].second >= instance.first[i]) continue;
        State grown = state;
        if (o == state.size()) grown.push_back({instance.sides(i), instance.last[i]});
        grown[o] = {cover(grown[o].first, instance.sides(i)), instance.last[i]};
        for (auto& object : grown) {
          if (object.second < instance.first[i]) object.second = -1;
        }
        std::sort(grown.begin(), grown.end());
        next.insert(std::move(grown));
      }
    }
    states = std::move(next);
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const State& state : states) {
    std::int64_t total = 0;
    for (const auto& object : state) total += volume(object.first);
    least = std::min(least, total);
  }
  return least;
}

// A valid assignment, numbered in the order of first records, of the size it says; the bound is no more than that.
void check_valid(const ObjectInstance& instance, const ObjectSearchResult& found) {
  CHECK(found.assignment.size() == instance.count());
  std::vector<Sides> objects;
  for (std::size_t i = 0; i < instance.count(); ++i) {
    const std::int64_t object = found.assignment[i];
    CHECK(object >= 0 && object <= static_cast<std::int64_t>(objects.size()));
    if (object == static_cast<std::int64_t>(objects.size())) objects.push_back(instance.sides(i));
    Sides& sides = objects[static_cast<std::size_t>(object)];
    sides = cover(sides, instance.sides(i));
    for (std::size_t j = 0; j < i; ++j) CHECK(found.assignment[j] != object || !instance.conflict(i, j));
  }
  std::int64_t total = 0;
  for (const Sides& sides : objects) total += volume(sides);
  CHECK(total == found.size);
  CHECK(found.bound <= found.size);
  CHECK(found.optimal() == (found.stopped == Stop::kBound || found.stopped == Stop::kProof));
}

TEST(shared_objects_search_finds_the_optimum_of_all_partitions) {
  std::mt19937_64 random(1);
  for (int turn = 0; turn < rounds(20'000); ++turn) {
    const ObjectInstance instance = random_instance(random, 8, 8);
    const std::int64_t optimum = optimum_of_partitions(instance);
    const ObjectSearchResult found = search_shared_objects(instance.records(), {});
    check_valid(instance, found);
    CHECK(found.size == optimum);
    CHECK(found.optimal());
  }
}

TEST(shared_objects_search_finds_the_optimum_of_a_sweep) {
  std::mt19937_64 random(2);
  for (int turn = 0; turn < 400; ++turn) {
    const ObjectInstance instance = random_network(random, 12);
    const ObjectSearchResult found = search_shared_objects(instance.records(), {});
    check_valid(instance, found);
    CHECK(found.optimal());
    CHECK(found.size == optimum_of_sweep(instance));
  }
}

TEST(shared_objects_search_is_valid_whenever_it_is_stopped) {
  std::mt19937_64 random(3);
  for (int turn = 0; turn < 4'000; ++turn) {
    const ObjectInstance instance = random_instance(random, 14, 6);
    const std::int64_t optimum = search_shared_objects(instance.records(), {}).size;
    ObjectSearchLimits limits;
    limits.work = static_cast<std::int64_t>(random() % 400);
    limits.seed = random();
    const ObjectSearchResult found = search_shared_objects(instance.records(), limits);
    check_valid(instance, found);
    CHECK(found.bound <= optimum && optimum <= found.size);
  }
}

TEST(shared_objects_search_gives_the_same_plan_for_the_same_work) {
  std::mt19937_64 random(4);
  for (int turn = 0; turn < 20; ++turn) {
    const ObjectInstance instance = random_instance(random, 120, 20);
    ObjectSearchLimits limits;
    limits.work = 30'000;
    const ObjectSearchResult one = search_shared_objects(instance.records(), limits);
    const ObjectSearchResult other = search_shared_objects(instance.records(), limits);
    check_valid(instance, one);
    CHECK(one.assignment == other.assignment && one.bound == other.bound && one.work == other.work);
    CHECK(one.work <= limits.work + 1'000);
  }
}

TEST(shared_objects_search_without_time_gives_a_plan) {
  std::mt19937_64 random(5);
  const ObjectInstance instance = random_instance(random, 400, 30);
  ObjectSearchLimits limits;
  limits.seconds = 0.0;
  check_valid(instance, search_shared_objects(instance.records(), limits));
}

TEST(shared_objects_search_proves_what_no_profile_shows) {
  // Two objects at every operator; the large records are next to each other by way of small ones.
  const ObjectInstance instance{{0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}, {9, 1, 1, 1, 9}, 1};
  const ObjectSearchResult found = search_shared_objects(instance.records(), {});
  CHECK(found.size == 10 && found.stopped == Stop::kBound);
  const ObjectInstance odd{{0, 1, 2, 3}, {1, 2, 3, 4}, {9, 1, 1, 9}, 1};
  const ObjectSearchResult proved = search_shared_objects(odd.records(), {});
  CHECK(proved.size == 11 && proved.stopped == Stop::kProof);
}

TEST(shared_objects_search_stays_within_int64) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  // What covers two of the three has more texels than int64 holds.
  const ObjectInstance crossed{{0, 2, 4, 6}, {1, 3, 5, 7}, {kLarge, 1, 1, kLarge, 1, 1, 7, 1}, 2};
  const ObjectSearchResult found = search_shared_objects(crossed.records(), {});
  check_valid(crossed, found);
  CHECK(found.optimal() && found.size == 2 * kLarge);
  const std::int64_t half = std::numeric_limits<std::int64_t>::max() / 8;
  const ObjectInstance bytes{{0, 1, 2, std::numeric_limits<std::int64_t>::max() - 1},
                             {1, 2, 3, std::numeric_limits<std::int64_t>::max()},
                             {half, half - 1, 2, 1},
                             1};
  CHECK(search_shared_objects(bytes.records(), {}).size == 2 * half - 1);
}

TEST(shared_objects_search_refuses_what_the_others_refuse) {
  const Values one{1};
  const Values zero{0};
  CHECK_REFUSED(search_shared_objects({one, zero, one, 1}, {}));
  CHECK_REFUSED(search_shared_objects({one, one, one, 2}, {}));
  CHECK(search_shared_objects({zero, one, zero, 1}, {}).assignment == zero);
  CHECK(search_shared_objects({{}, {}, {}, 1}, {}).assignment.empty());
}

}  // namespace
