#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "planner/common/stop.h"
#include "planner/schedule/hills.h"
#include "planner/schedule/partial.h"
#include "planner/schedule/parts.h"
#include "planner/schedule/series.h"
#include "tests/check.h"
#include "tests/order_instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::Stop;
using edgemem::schedule::components;
using edgemem::schedule::Id;
using edgemem::schedule::Limits;
using edgemem::schedule::order_parts;
using edgemem::schedule::Problem;
using edgemem::schedule::Profile;
using edgemem::schedule::series_places;
using edgemem::schedule::Solved;

constexpr std::int64_t kMuch = 1'000'000'000;

// The most alive at once when the profiles' steps run in this order.
std::int64_t merged_peak(const std::vector<Profile>& profiles, const std::vector<std::size_t>& sequence) {
  std::vector<std::size_t> next(profiles.size(), 0);
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const std::size_t p : sequence) {
    const std::size_t step = next[p]++;
    const std::int64_t before = step == 0 ? 0 : profiles[p].after[step - 1];
    most = std::max(most, live + profiles[p].during[step] - before);
    live += profiles[p].after[step] - before;
  }
  for (std::size_t p = 0; p < profiles.size(); ++p) CHECK(next[p] == profiles[p].after.size());
  return most;
}

std::int64_t least_of_all_merges(const std::vector<Profile>& profiles) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> sequence;
  std::vector<std::size_t> next(profiles.size(), 0);
  std::size_t steps = 0;
  for (const Profile& profile : profiles) steps += profile.after.size();
  const std::function<void()> extend = [&] {
    if (sequence.size() == steps) least = std::min(least, merged_peak(profiles, sequence));
    for (std::size_t p = 0; p < profiles.size(); ++p) {
      if (next[p] == profiles[p].after.size()) continue;
      ++next[p];
      sequence.push_back(p);
      extend();
      sequence.pop_back();
      --next[p];
    }
  };
  extend();
  return least;
}

// `chains` times operators in a row, which write classes of these sizes; all read x, and one joins them. The file has
// them layer by layer.
Fields fan(std::int64_t chains, const Values& sizes, std::int64_t x) {
  Fields fields;
  fields.size = {x};
  fields.start = {0};
  Values last(static_cast<std::size_t>(chains), 0);
  Values made(static_cast<std::size_t>(chains), -1);
  const auto add = [&](const Values& before, const Values& reads, std::int64_t size) {
    fields.before.push_back(before);
    fields.reads.push_back(reads);
    fields.writes.push_back({static_cast<std::int64_t>(fields.size.size())});
    fields.size.push_back(size);
    return static_cast<std::int64_t>(fields.before.size()) - 1;
  };
  for (const std::int64_t size : sizes) {
    for (std::size_t c = 0; c < last.size(); ++c) {
      made[c] = add(made[c] < 0 ? Values{} : Values{made[c]}, {last[c]}, size);
      last[c] = fields.writes.back().front();
    }
  }
  add(made, last, 1);
  fields.over.resize(fields.before.size());
  for (Values* sizes_of : {&fields.own, &fields.inside, &fields.early, &fields.leaves, &fields.entry}) {
    sizes_of->resize(fields.before.size());
  }
  return fields;
}

TEST(merges_are_the_best_of_all) {
  Random random(41);
  for (int round = 0; round < rounds(1500); ++round) {
    std::vector<Profile> profiles(1 + static_cast<std::size_t>(random.below(3)));
    for (Profile& profile : profiles) {
      std::int64_t level = 0;
      for (std::int64_t steps = random.below(5); steps > 0; --steps) {
        const std::int64_t next = level + random.below(13) - 6;
        profile.during.push_back(std::max(level, next) + random.below(5));
        profile.after.push_back(next);
        level = next;
      }
    }
    CHECK(merged_peak(profiles, merge(profiles)) == least_of_all_merges(profiles));
  }
}

TEST(equal_chains_run_one_after_the_other) {
  const std::vector<Profile> profiles(3, Profile{{10, 110, 105}, {10, 100, 5}});
  CHECK((merge(profiles) == std::vector<std::size_t>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
}

TEST(places_that_all_orders_pass_through) {
  Random random(42);
  for (int round = 0; round < rounds(1000); ++round) {
    const Fields fields = random_fields(random, 7, false);
    const Problem problem(fields);
    std::vector<std::set<std::set<std::int64_t>>> prefixes(fields.before.size() + 1);
    Values order;
    each_order(fields, order, [&](const Values& all) {
      for (std::size_t k = 0; k <= all.size(); ++k) {
        prefixes[k].insert(std::set<std::int64_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k)));
      }
    });
    std::vector<std::size_t> expected;
    for (std::size_t k = 0; k < prefixes.size(); ++k) {
      if (prefixes[k].size() == 1) expected.push_back(k);
    }
    const Values some = random_order(fields, random);
    CHECK(series_places(problem, std::vector<Id>(some.begin(), some.end())) == expected);
  }
}

TEST(what_depends_on_each_other_is_one_set) {
  Fields fields = fan(3, {5, 4}, 9);
  fields.before.back() = {3, 5};  // the last operator joins two of the three
  fields.reads.back() = {4, 6};
  const Problem problem(fields);
  CHECK((components(problem) == std::vector<std::vector<Id>>{{0, 2, 3, 5, 6}, {1, 4}}));
}

TEST(parts_with_much_work_are_proved_where_there_are_any) {
  Random random(43);
  int divided = 0;
  for (int round = 0; round < rounds(1500); ++round) {
    const Fields fields = random_fields(random, 7, true);
    const Problem problem(fields);
    const std::int64_t least = least_peak_of_all_orders(fields);
    const Values order = random_order(fields, random);
    for (const std::int64_t work : {kMuch, random.below(200)}) {
      const Solved solved = order_parts(problem, {order, 0}, {work, 1, {}, {}});
      const std::int64_t reached = literal_peak(fields, solved.order);
      CHECK(peak(problem, solved.order) == reached);
      CHECK(solved.bound <= least && reached <= literal_peak(fields, order));
      CHECK((solved.stopped == Stop::kProof) == (solved.bound == reached));
    }
    const Solved solved = order_parts(problem, {order, 0}, {kMuch, 1, {}, {}});
    const std::vector<Id> sequence(order.begin(), order.end());
    const std::vector<std::size_t> places = series_places(problem, sequence);
    std::size_t largest = 0;
    for (std::size_t p = 1; p < places.size(); ++p) largest = std::max(largest, places[p] - places[p - 1]);
    if (4 * largest <= 3 * order.size()) {
      CHECK(solved.stopped == Stop::kProof && literal_peak(fields, solved.order) == least);
      ++divided;
    }
  }
  CHECK(divided > 300 * rounds(1500) / 1500);
}

TEST(tiles_run_depth_first_without_a_search) {
  // Greedy runs the first operators of all chains, which add the least.
  const std::int64_t chains = 40;
  const Fields fields = fan(chains, {30, 100, 5}, 50);
  const Problem problem(fields);
  const Solved solved = order_parts(problem, {{}, 0}, {0, 1, {}, {}});
  CHECK(literal_peak(fields, solved.order) == 50 + (chains - 2) * 5 + 130);
  CHECK(peak(problem, greedy(problem)) > 2 * literal_peak(fields, solved.order));
}

TEST(parts_need_an_order) {
  const Problem problem(fan(2, {3, 4}, 5));
  CHECK_REFUSED(order_parts(problem, {{1}, 0}, {10, 1, {}, {}}));
}

}  // namespace
