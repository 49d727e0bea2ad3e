// Searches side by side, and searches that are ended early. Also built with the thread sanitizer.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/search.h"
#include "planner/offsets/search/slots.h"
#include "planner/offsets/search/threads.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

using edgemem::Records;
using edgemem::SearchLimits;
using edgemem::SearchResult;
using edgemem::Stop;

Instance random_instance(std::uint64_t seed, std::int64_t count, std::int64_t operators, std::int64_t longest) {
  Random random(seed);
  Instance made = random_records(random, count, operators, longest, 999);
  made.alignment = 16;
  return made;
}

bool same(const SearchResult& a, const SearchResult& b) {
  return a.offsets == b.offsets && a.size == b.size && a.bound == b.bound && a.stopped == b.stopped && a.work == b.work;
}

TEST(search_threads_repeat_themselves_and_are_never_worse) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    // Some of these meet a bound at once, some after a while, some never.
    const Instance instance = random_instance(seed, 20 + 20 * static_cast<std::int64_t>(seed % 4), 40, 12);
    SearchLimits limits;
    limits.work = 4'000;
    const SearchResult alone = edgemem::search_offsets(instance.records(), limits);
    for (const int threads : {2, 4}) {
      limits.threads = threads;
      const SearchResult once = edgemem::search_offsets(instance.records(), limits);
      CHECK(is_valid(instance, once.offsets));
      CHECK(once.size <= alone.size && once.bound >= alone.bound);
      for (int again = 0; again < 3; ++again) CHECK(same(once, edgemem::search_offsets(instance.records(), limits)));
    }
  }
}

TEST(search_takes_any_seed) {
  const Instance instance = random_instance(7, 60, 40, 12);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()}) {
    SearchLimits limits;
    limits.work = 2'000;
    limits.seed = seed;
    limits.threads = 2;
    CHECK(is_valid(instance, edgemem::search_offsets(instance.records(), limits).offsets));
  }
}

TEST(search_threads_end_with_the_time) {
  const Instance instance = random_instance(8, 2'000, 2'000, 60);
  for (const double seconds : {0.0, 1e-5, 1e-3, 0.02}) {
    SearchLimits limits;
    limits.work = std::numeric_limits<std::int64_t>::max();
    limits.seconds = seconds;
    limits.threads = 3;
    const SearchResult result = edgemem::search_offsets(instance.records(), limits);
    CHECK(is_valid(instance, result.offsets));
    CHECK(result.stopped == (result.optimal() ? Stop::kBound : Stop::kTime));
    CHECK(result.bound <= edgemem::offset_lower_bound(instance.records()));
  }
}

TEST(search_refuses_impossible_limits) {
  const Instance instance = random_instance(9, 10, 10, 4);
  SearchLimits limits;
  limits.threads = 0;
  CHECK_REFUSED(edgemem::search_offsets(instance.records(), limits));
  limits.threads = 1;
  limits.seconds = -1.0;
  CHECK_REFUSED(edgemem::search_offsets(instance.records(), limits));
  limits.seconds = std::numeric_limits<double>::quiet_NaN();
  CHECK_REFUSED(edgemem::search_offsets(instance.records(), limits));
  limits.seconds = std::numeric_limits<double>::infinity();
  CHECK(is_valid(instance, edgemem::search_offsets(instance.records(), limits).offsets));
}

TEST(search_is_ended_by_what_the_poll_throws) {
  const Instance instance = random_instance(10, 3'000, 3'000, 200);
  for (const int threads : {1, 3}) {
    SearchLimits limits;
    limits.work = std::numeric_limits<std::int64_t>::max();
    limits.threads = threads;
    int polled = 0;
    limits.poll = [&] {
      if (++polled == 3) throw std::runtime_error("enough");
    };
    bool ended = false;
    try {
      edgemem::search_offsets(instance.records(), limits);
    } catch (const std::runtime_error&) {
      ended = true;
    }
    CHECK(ended && polled == 3);
  }
}

TEST(side_by_side_tries_again_what_ran_out_of_memory) {
  std::vector<int> runs(4, 0);
  edgemem::offset_search::side_by_side(4, [&](int k) {
    if (++runs[static_cast<std::size_t>(k)] == 1 && k % 2 == 0) throw std::bad_alloc();
  });
  CHECK((runs == std::vector<int>{2, 1, 2, 1}));
  std::atomic<int> tries{0};
  bool ended = false;
  try {
    edgemem::offset_search::side_by_side(2, [&](int k) {
      if (k == 1) ++tries, throw std::bad_alloc();
    });
  } catch (const std::bad_alloc&) {
    ended = true;
  }
  CHECK(ended && tries == 2);
}

TEST(reused_slots_give_valid_plans_of_any_size) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Instance instance = random_instance(seed, 150, 60, 9);
    if (seed % 3 == 0) {
      // As large as they may be: they add up to almost all that int64 holds.
      for (std::int64_t& size : instance.size) size = std::numeric_limits<std::int64_t>::max() / 160 - 1000 + size;
    }
    Values offsets(instance.size.size(), 0);
    for (const edgemem::offset_search::Part& pieces : edgemem::offset_search::split(instance.records())) {
      edgemem::Budget budget(0, std::nullopt);
      const Values made = edgemem::offset_search::reuse_slots(pieces, budget);
      for (std::size_t i = 0; i < made.size(); ++i) offsets[pieces.record[i]] = made[i] * pieces.unit;
    }
    CHECK(is_valid(instance, offsets));
  }
}

TEST(reused_slots_stay_close_to_the_bound) {
  const Instance instance = random_instance(21, 20'000, 5'000, 100);
  for (const edgemem::offset_search::Part& pieces : edgemem::offset_search::split(instance.records())) {
    edgemem::Budget budget(0, std::nullopt);
    CHECK(edgemem::offset_search::peak(pieces, edgemem::offset_search::reuse_slots(pieces, budget)) <=
          2 * pieces.bound);
  }
}

TEST(many_parts_are_found_with_and_without_time) {
  // Records alone, and pairs that overlap.
  Instance instance;
  instance.alignment = 16;
  std::int64_t most = 0;
  for (std::int64_t k = 0; k < 30'000; ++k) {
    const std::int64_t a = 1 + k * 7919 % 1000;
    instance.add(10 * k, 10 * k, a);
    instance.add(10 * k + 1, 10 * k + 2, a + 5);
    instance.add(10 * k + 2, 10 * k + 3, a + 9);
    const std::int64_t padded = std::min((a + 5 + 15) / 16 * 16 + a + 9, (a + 9 + 15) / 16 * 16 + a + 5);
    most = std::max({most, a, padded});
  }
  for (const bool timed : {false, true}) {
    SearchLimits limits;
    if (timed) limits.seconds = 1e6;
    const SearchResult result = edgemem::search_offsets(instance.records(), limits);
    CHECK(result.size == most && result.bound == most && result.stopped == Stop::kBound);
    for (std::size_t i = 1; i < result.offsets.size(); ++i) {
      const std::size_t j = i - 1;
      const bool alive = instance.first[i] <= instance.last[j];
      CHECK(result.offsets[i] % 16 == 0 && result.offsets[i] >= 0);
      CHECK(!alive || result.offsets[i] >= result.offsets[j] + instance.size[j] ||
            result.offsets[j] >= result.offsets[i] + instance.size[i]);
    }
  }
}

}  // namespace
