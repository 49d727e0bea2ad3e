// Spatio-temporal planning piece by piece; its plans against tests/oracle/spatio_temporal.py from Python.
#include "planner/offsets/spatio_temporal/spatio_temporal.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/by_size.h"
#include "planner/offsets/spatio_temporal/fusion.h"
#include "planner/offsets/spatio_temporal/layers.h"
#include "planner/offsets/spatio_temporal/lower.h"
#include "planner/offsets/spatio_temporal/phases.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

namespace st = edgemem::spatio_temporal;

constexpr st::Rules kBoth[] = {st::Rules::kImproved, st::Rules::kPaper};

Values random_phases(Random& random, std::size_t count) {
  Values phases;
  for (std::size_t i = 0; i < 2 * count; ++i) phases.push_back(random.below(4) - (random.below(9) == 0 ? 1 : 0));
  return phases;
}

// The least that each record could sink to in the plan, or -1 if it is not on that.
bool rests(const Instance& instance, const Values& offsets, std::size_t i) {
  std::int64_t below = 0;
  for (std::size_t j = 0; j < instance.count(); ++j) {
    if (j == i || instance.size[j] == 0 || !instance.conflict(i, j) || offsets[j] > offsets[i]) continue;
    below = std::max(below, offsets[j] + instance.padded(j));
  }
  for (std::size_t k = 1; k < instance.reserved.size(); k += 2) {
    if (instance.reserved[k] <= offsets[i]) below = std::max(below, instance.reserved[k]);
  }
  return offsets[i] == below;
}

}  // namespace

TEST(spatio_temporal_plans_are_valid_around_pins) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_pinned_instance(random, 4 + random.below(24), 12);
    const Values phases = random_phases(random, instance.count());
    for (const st::Rules rules : kBoth) {
      for (const bool has_phases : {true, false}) {
        const st::Result found = st::plan(instance.records(), has_phases ? phases : Values(), rules);
        CHECK(is_valid(instance, found.offsets));
        CHECK(found.bound == edgemem::offset_lower_bound(instance.records()));
        CHECK((found.stopped == edgemem::Stop::kBound) == (arena_of(instance, found.offsets) == found.bound));
      }
    }
  }
}

TEST(spatio_temporal_needs_two_phases_a_record_and_a_limit_from_0) {
  Instance instance;
  instance.add(0, 1, 8);
  const Values one{0};
  CHECK_REFUSED(st::plan(instance.records(), one, st::Rules::kImproved));
  CHECK_REFUSED(st::plan(instance.records(), {}, st::Rules::kImproved, {-1.0, {}}));
  const Values two{0, 0};
  CHECK(st::plan(instance.records(), two, st::Rules::kPaper).offsets == Values{0});
}

TEST(spatio_temporal_without_time_is_still_a_plan) {
  Random random(2);
  Instance instance = random_records(random, 30'000, 30'000, 400, 1'000);
  instance.alignment = 16;
  const st::Result found = st::plan(instance.records(), {}, st::Rules::kImproved, {0.0, {}});
  CHECK(found.stopped == edgemem::Stop::kTime);
  CHECK(found.tried == 0);
  std::int64_t top = 0;
  for (std::size_t i = 0; i < instance.count(); ++i) top += instance.padded(i);
  CHECK(arena_of(instance, found.offsets) > top - instance.alignment);  // end to end
}

TEST(spatio_temporal_ends_when_the_poll_throws) {
  Random random(3);
  const Instance instance = random_records(random, 30'000, 30'000, 400, 1'000);
  bool is_ended = false;
  try {
    st::plan(instance.records(), {}, st::Rules::kImproved, {{}, [] { throw std::runtime_error("ctrl-c"); }});
  } catch (const std::runtime_error&) {
    is_ended = true;
  }
  CHECK(is_ended);
}

TEST(memory_layers_are_as_many_as_requests_in_use_together) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<st::Request> requests;
    for (std::int64_t k = random.below(30); k > 0; --k) {
      const std::int64_t first = random.below(20);
      requests.push_back({first, first + random.below(8), 1});
    }
    const std::vector<std::size_t> layer = st::memory_layers(requests);
    std::size_t most = 0;
    for (std::int64_t op = 0; op < 28; ++op) {
      most = std::max(
          most, static_cast<std::size_t>(std::count_if(requests.begin(), requests.end(), [&](const st::Request& r) {
            return r.first <= op && op <= r.last;
          })));
    }
    CHECK(layer.empty() ? most == 0 : *std::max_element(layer.begin(), layer.end()) + 1 == most);
    for (std::size_t a = 0; a < requests.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool meet = requests[a].first <= requests[b].last && requests[b].first <= requests[a].last;
        CHECK(!meet || layer[a] != layer[b]);
      }
    }
  }
}

TEST(a_smaller_request_fills_the_gap_of_a_larger_layer) {
  edgemem::Poll poll;
  const std::vector<st::Request> requests{{0, 1, 8}, {4, 5, 8}, {2, 3, 4}, {3, 4, 4}, {0, 5, 2}};
  CHECK((st::place_in_layers(requests, poll) == Values{0, 0, 0, 8, 12}));
}

TEST(near_sizes_are_raised_by_the_share_at_most) {
  CHECK((st::near_sizes({100, 90, 88, 87, 44, 0}, 8) == Values{100, 90 + 10, 88 + 12, 87, 44, 0}));
  CHECK((st::near_sizes({100, 99}, 0) == Values{100, 99}));
  Random random(5);
  Values sizes;
  for (int k = 0; k < 300; ++k) sizes.push_back(random.below(1000));
  const Values raised = st::near_sizes(sizes, 8);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(raised[i] >= sizes[i] && raised[i] - raised[i] / 8 <= sizes[i]);
    CHECK(std::find(sizes.begin(), sizes.end(), raised[i]) != sizes.end());
  }
}

TEST(lowered_records_rest_on_others) {
  Random random(6);
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_pinned_instance(random, 3 + random.below(15), 10);
    Values order(instance.count());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    Values offsets = edgemem::place_in_smallest_gap(instance.records(), order);
    // With room between the free records: each of them is above all that is pinned or reserved.
    std::int64_t base = 0;
    for (std::size_t i = 0; i < instance.count(); ++i) base = std::max(base, offsets[i] + instance.padded(i));
    for (const std::int64_t end : instance.reserved) base = std::max(base, end);
    base = instance.aligned(base);
    for (std::size_t i = 0; i < instance.count(); ++i) {
      if (instance.size[i] > 0 && instance.pin_of(i) < 0) offsets[i] = base + 3 * offsets[i];
    }
    CHECK(is_valid(instance, offsets));
    const Values found = st::lowered(instance.records(), offsets);
    CHECK(is_valid(instance, found));
    for (std::size_t i = 0; i < instance.count(); ++i) {
      CHECK(found[i] <= offsets[i]);
      CHECK(instance.size[i] == 0 || instance.pin_of(i) >= 0 || rests(instance, found, i));
    }
  }
}

TEST(phases_end_where_the_load_turns) {
  Instance instance;  // up to 160, down to 64, up to 160, down; the last record changes less than a sixteenth
  for (std::int64_t k = 0; k < 10; ++k) instance.add(k, k < 6 ? 19 - k : 40 - k, 16);
  for (std::int64_t k = 0; k < 6; ++k) instance.add(22 + k, 50 - k, 16);
  instance.add(3, 3, 4);
  const Values phases = st::phases_by_load(instance.records());
  CHECK(phases[0] == 0 && phases[1] == 1);    // begins in the first rise, ends in the first fall
  CHECK(phases[18] == 0 && phases[19] == 3);  // goes on to the second fall
  CHECK(phases[20] == 2 && phases[21] == 3);  // begins in the second rise
  CHECK(phases[32] == 0 && phases[33] == 0);
}

TEST(fusion_puts_what_begins_in_the_last_phase_where_something_has_ended) {
  Instance instance;
  instance.add(0, 2, 64);  // forward, until the backward pass
  instance.add(1, 5, 64);
  instance.add(3, 5, 64);  // of the backward pass
  const Values phases{0, 1, 0, 1, 1, 1};
  edgemem::Poll poll;
  for (const st::Rules rules : kBoth) {
    const auto groups = st::plan_phase_groups(instance.records(), phases, rules, poll);
    CHECK(groups.size() == 2);
    const auto fused = st::fuse(instance.records(), groups, rules, 1'000'000, poll);
    CHECK(fused.size() == 1);
    CHECK(fused[0].size == 128);
    CHECK(fused[0].first_phase == 0 && fused[0].last_phase == 1);
    CHECK(st::fuse(instance.records(), groups, rules, 0, poll).size() == 2);  // no work is left for it
  }
}
