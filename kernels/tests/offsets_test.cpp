#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

using edgemem::Records;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Instance random_instance(Random& random, std::int64_t count, std::int64_t horizon, std::int64_t longest,
                         std::int64_t largest) {
  const std::int64_t alignment = std::int64_t{1} << random.below(7);
  Instance instance = random_records(random, count, horizon, longest, largest);
  instance.alignment = alignment;
  return instance;
}

Values identity(std::size_t count) {
  Values order(count);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

Values sorted_by(const Values& key) {
  Values order = identity(key.size());
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return key[static_cast<std::size_t>(a)] < key[static_cast<std::size_t>(b)];
  });
  return order;
}

Values negated(Values values) {
  for (std::int64_t& value : values) value = -value;
  return values;
}

Values largest_first(const Instance& instance) { return sorted_by(negated(instance.size)); }

Values longest_first(const Instance& instance) {
  Values key(instance.count());
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = instance.first[i] - instance.last[i];
  return sorted_by(key);
}

// Tries every address at which a gap can begin: 0 and the ends of what was placed.
Values brute_smallest_gap(const Instance& instance, const Values& order) {
  Values offsets(instance.count(), 0);
  std::vector<std::size_t> placed;
  for (const std::int64_t id : order) {
    const auto i = static_cast<std::size_t>(id);
    if (instance.size[i] == 0) continue;
    Values begins{0};
    for (const std::size_t other : placed) {
      if (instance.conflict(i, other)) begins.push_back(offsets[other] + instance.padded(other));
    }
    std::sort(begins.begin(), begins.end());
    std::int64_t best_gap = kMax;
    std::int64_t best = begins.back();
    for (const std::int64_t begin : begins) {
      std::int64_t end = kMax;
      bool occupied = false;
      for (const std::size_t other : placed) {
        if (!instance.conflict(i, other)) continue;
        occupied |= offsets[other] <= begin && begin < offsets[other] + instance.padded(other);
        if (offsets[other] >= begin) end = std::min(end, offsets[other]);
      }
      if (occupied || end == kMax || end - begin < instance.size[i] || end - begin >= best_gap) continue;
      best_gap = end - begin;
      best = begin;
    }
    offsets[i] = best;
    placed.push_back(i);
  }
  return offsets;
}

// One height per operator; a line is a maximal run of operators of one height.
Values brute_offset_lines(const Instance& instance, const Values& preference) {
  const std::size_t n = instance.count();
  Values offsets(n, 0);
  if (n == 0) return offsets;
  const auto ops = static_cast<std::size_t>(*std::max_element(instance.last.begin(), instance.last.end())) + 1;
  Values height(ops, 0);
  std::vector<bool> done(n);
  std::size_t left = 0;
  for (std::size_t i = 0; i < n; ++i) {
    done[i] = instance.size[i] == 0;
    left += done[i] ? 0 : 1;
  }
  while (left > 0) {
    const auto begin = static_cast<std::size_t>(std::min_element(height.begin(), height.end()) - height.begin());
    std::size_t end = begin;
    while (end + 1 < ops && height[end + 1] == height[begin]) ++end;
    bool found = false;
    for (const std::int64_t id : preference) {
      const auto i = static_cast<std::size_t>(id);
      if (done[i] || static_cast<std::size_t>(instance.first[i]) < begin) continue;
      if (static_cast<std::size_t>(instance.last[i]) > end) continue;
      offsets[i] = height[begin];
      for (auto op = static_cast<std::size_t>(instance.first[i]); op <= static_cast<std::size_t>(instance.last[i]);
           ++op) {
        height[op] = offsets[i] + instance.padded(i);
      }
      done[i] = found = true;
      --left;
      break;
    }
    if (found) continue;
    std::int64_t lowest = kMax;
    if (begin > 0) lowest = height[begin - 1];
    if (end + 1 < ops) lowest = std::min(lowest, height[end + 1]);
    for (std::size_t op = begin; op <= end; ++op) height[op] = lowest;
  }
  return offsets;
}

std::int64_t brute_bound(const Instance& instance) {
  std::int64_t bound = 0;
  for (const std::int64_t op : instance.first) {
    std::int64_t sum = 0;
    std::int64_t padding = 0;
    for (std::size_t i = 0; i < instance.count(); ++i) {
      if (instance.first[i] > op || instance.last[i] < op) continue;
      sum += instance.padded(i);
      padding = std::max(padding, instance.padded(i) - instance.size[i]);
    }
    bound = std::max(bound, sum - padding);
  }
  return bound;
}

void check_all(const Instance& instance, bool brute) {
  for (const Values& order : {largest_first(instance), identity(instance.count()), longest_first(instance)}) {
    const Values by_scan = edgemem::place_in_smallest_gap(instance.records(), order, instance.count());
    const Values by_index = edgemem::place_in_smallest_gap(instance.records(), order, 0);
    CHECK(by_scan == by_index);
    CHECK(is_valid(instance, by_scan));
    if (brute) CHECK(by_scan == brute_smallest_gap(instance, order));
    const Values on_lines = edgemem::place_on_offset_lines(instance.records(), order);
    CHECK(is_valid(instance, on_lines));
    if (brute) CHECK(on_lines == brute_offset_lines(instance, order));
    CHECK(arena_of(instance, by_scan) >= edgemem::offset_lower_bound(instance.records()));
  }
  CHECK(edgemem::offset_lower_bound(instance.records()) == brute_bound(instance));
}

}  // namespace

TEST(small_instances_equal_brute_force) {
  Random random(1);
  for (int round = 0; round < 1500; ++round) {
    const std::int64_t count = 1 + random.below(40);
    const std::int64_t horizon = 1 + random.below(40);
    check_all(random_instance(random, count, horizon, 1 + random.below(horizon), 1 + random.below(200)), true);
  }
}

TEST(large_instances_are_equal_on_both_paths) {
  Random random(2);
  for (const auto& [count, horizon, longest] :
       {std::tuple{2000, 5000, 500}, {2000, 200, 50}, {2000, 1000000, 5}, {2000, 3, 3}, {1500, 4000, 4000}}) {
    check_all(random_instance(random, count, horizon, longest, 100000), false);
    check_all(random_instance(random, count, horizon, longest, 12), false);
  }
}

TEST(a_mix_of_permanent_and_passing_records) {
  Random random(3);
  Instance instance = random_instance(random, 1200, 3000, 8, 5000);
  for (int i = 0; i < 300; ++i) {
    instance.add(random.below(2) == 0 ? 0 : random.below(3000), 3007, 1 + random.below(5000));
    instance.add(0, random.below(3008), 1 + random.below(5000));
  }
  check_all(instance, false);
}

TEST(degenerate_instances) {
  check_all({}, true);
  Instance one;
  one.add(7, 7, 5);
  check_all(one, true);
  Instance nothing;
  for (int i = 0; i < 5; ++i) nothing.add(0, 3, 0);
  check_all(nothing, true);
  Instance identical, nested, chain;
  for (int i = 0; i < 600; ++i) {
    identical.add(4, 9, 16);
    nested.add(i, 1200 - i, 1 + i % 17);
    chain.add(i, i + 1, 1 + i % 23);
  }
  check_all(identical, false);
  check_all(nested, false);
  check_all(chain, true);
}

TEST(equal_neighbours_merge_and_ties_go_left) {
  // After the two short records have made one level line, the long one fits on it.
  Instance instance;
  instance.add(0, 3, 4);
  instance.add(0, 1, 2);
  instance.add(2, 3, 2);
  const Values shorts_first{1, 2, 0};
  CHECK((edgemem::place_on_offset_lines(instance.records(), shorts_first) == Values{2, 0, 0}));
  const Values long_first{0, 1, 2};
  CHECK((edgemem::place_on_offset_lines(instance.records(), long_first) == Values{0, 4, 4}));
}

TEST(the_lowest_of_equal_gaps_is_taken) {
  Instance instance;
  instance.add(0, 9, 10);  // 0
  instance.add(0, 4, 5);   // 10, freed before the last record
  instance.add(0, 9, 10);  // 15
  instance.add(0, 4, 5);   // 25, freed as well
  instance.add(0, 9, 10);  // 30
  instance.add(5, 9, 5);
  const Values offsets = edgemem::place_in_smallest_gap(instance.records(), identity(6));
  CHECK((offsets == Values{0, 10, 15, 25, 30, 10}));
}

TEST(sections_are_maximal_and_begin_at_operator_0) {
  Instance instance;
  instance.add(2, 5, 10);
  instance.add(4, 5, 1);
  instance.add(1000000000, 2000000000, 7);
  const edgemem::Sections sections = edgemem::section_breadths(instance.records());
  CHECK((sections.starts == Values{0, 2, 4, 6, 1000000000}));
  CHECK((sections.breadths == Values{0, 10, 11, 0, 7}));
  CHECK(edgemem::section_breadths(Instance{}.records()).starts.empty());
}

TEST(section_breadths_equal_brute_force) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_instance(random, 1 + random.below(20), 30, 10, 50);
    const edgemem::Sections sections = edgemem::section_breadths(instance.records());
    const std::int64_t end = *std::max_element(instance.last.begin(), instance.last.end());
    for (std::int64_t op = 0, section = -1; op <= end; ++op) {
      const auto next = static_cast<std::size_t>(section + 1);
      if (next < sections.starts.size() && sections.starts[next] == op) ++section;
      std::int64_t breadth = 0;
      for (std::size_t i = 0; i < instance.count(); ++i) {
        if (instance.first[i] <= op && op <= instance.last[i]) breadth += instance.size[i];
      }
      CHECK(sections.breadths[static_cast<std::size_t>(section)] == breadth);
    }
  }
}

TEST(the_bound_leaves_one_padding_out) {
  Instance instance;
  instance.alignment = 64;
  instance.add(0, 0, 100);  // 28 of padding
  instance.add(0, 0, 10);   // 54 of padding
  CHECK(edgemem::offset_lower_bound(instance.records()) == 138);
}

TEST(range_minima) {
  const Values values{5, 3, 8, 1, 9, 2, 7};
  for (std::int64_t low = 0; low < 7; ++low) {
    for (std::int64_t high = low; high < 7; ++high) {
      const Values lows{low}, highs{high};
      CHECK(edgemem::range_minimum(values, lows, highs)[0] ==
            *std::min_element(values.begin() + low, values.begin() + high + 1));
    }
  }
  const Values zero{0}, one{1}, seven{7}, negative{-1};
  CHECK_REFUSED(edgemem::range_minimum(values, one, zero));
  CHECK_REFUSED(edgemem::range_minimum(values, zero, seven));
  CHECK_REFUSED(edgemem::range_minimum(values, negative, zero));
  CHECK_REFUSED(edgemem::range_minimum({}, zero, zero));
}

TEST(the_largest_values_do_not_overflow) {
  Instance instance;
  for (int i = 0; i < 3; ++i) instance.add(kMax - 1, kMax, kMax / 4);
  instance.add(0, kMax, kMax / 4);
  check_all(instance, false);
  const edgemem::Sections sections = edgemem::section_breadths(instance.records());
  CHECK((sections.starts == Values{0, kMax - 1}));
  instance.add(0, 0, 8);
  CHECK_REFUSED(edgemem::offset_lower_bound(instance.records()));
  constexpr std::int64_t kAligned = kMax - 63;  // the last multiple of 64
  const Instance aligned{{0}, {0}, {kAligned}, 64};
  CHECK(aligned.records().padded(0) == kAligned);
  CHECK(edgemem::place_in_smallest_gap(aligned.records(), Values{0}) == Values{0});
}

TEST(a_bounded_gap_wins_over_the_top_however_wide) {
  // The gap under the third record is wider than what is left of int64 above it.
  Instance instance;
  instance.add(0, 0, kMax / 8 * 5);
  instance.add(0, 1, kMax / 8);
  instance.add(1, 1, 16);
  for (const std::size_t scan_limit : {std::size_t{0}, std::size_t{9}}) {
    CHECK(edgemem::place_in_smallest_gap(instance.records(), identity(3), scan_limit)[2] == 0);
  }
}

TEST(impossible_columns_are_refused) {
  const Values one{1}, two{2}, negative{-1}, zero{0}, pair{0, 0};
  const auto place = [&](const Records& records, const Values& order) {
    return edgemem::place_in_smallest_gap(records, order);
  };
  CHECK_REFUSED(place({one, two, pair, 1}, zero));
  CHECK_REFUSED(place({one, pair, one, 1}, zero));
  CHECK_REFUSED(place({two, one, one, 1}, zero));
  CHECK_REFUSED(place({negative, one, one, 1}, zero));
  CHECK_REFUSED(place({one, one, negative, 1}, zero));
  CHECK_REFUSED(place({one, one, one, 0}, zero));
  CHECK_REFUSED(place({one, one, one, 3}, zero));
  CHECK_REFUSED(place({one, one, one, 1}, one));
  CHECK_REFUSED(place({one, one, one, 1}, negative));
  CHECK_REFUSED(place({one, one, one, 1}, pair));
  CHECK_REFUSED(place({pair, pair, pair, 1}, pair));
  const Values huge{kMax};
  CHECK_REFUSED(place({one, one, huge, 64}, zero));
}
