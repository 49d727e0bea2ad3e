// The search around pinned records and reserved ranges, against every placement of small instances.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/pins.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/search/search.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

using edgemem::Records;
using edgemem::SearchResult;
using edgemem::Stop;

// The smallest arena: in some order of rising offsets, each free record lies at the bottom, or right behind a record
// that is alive with it, or behind a reserved range.
class Brute {
 public:
  explicit Brute(const Instance& instance) : instance_(instance), offsets_(instance.count(), -1) {
    for (std::size_t i = 0; i < instance.count(); ++i) {
      if (instance.size[i] == 0) continue;
      if (instance.pin_of(i) >= 0) {
        offsets_[i] = instance.pin_of(i);
      } else {
        left_.push_back(i);
      }
    }
  }

  std::int64_t optimum() {
    place(0);
    return best_;
  }

 private:
  void place(std::int64_t lowest) {
    if (arena_of(instance_, offsets_) >= best_) return;
    if (left_.empty()) best_ = arena_of(instance_, offsets_);
    for (std::size_t k = 0; k < left_.size(); ++k) {
      const std::size_t i = left_[k];
      Values places{0};
      for (std::size_t j = 0; j < instance_.count(); ++j) {
        if (offsets_[j] >= 0 && instance_.conflict(i, j)) places.push_back(offsets_[j] + instance_.size[j]);
      }
      for (std::size_t r = 1; r < instance_.reserved.size(); r += 2) places.push_back(instance_.reserved[r]);
      for (std::int64_t& place : places) {
        place = (place + instance_.alignment - 1) / instance_.alignment * instance_.alignment;
      }
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(k));
      for (const std::int64_t offset : places) {
        if (offset < lowest || !instance_.fits(i, offset, offsets_)) continue;
        offsets_[i] = offset;
        place(offset);
        offsets_[i] = -1;
      }
      left_.insert(left_.begin() + static_cast<std::ptrdiff_t>(k), i);
    }
  }

  const Instance& instance_;
  Values offsets_;
  std::vector<std::size_t> left_;
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

SearchResult search(const Instance& instance, std::int64_t work, std::uint64_t seed = 1, int threads = 1) {
  SearchResult found = edgemem::search_offsets(instance.records(), {work, seed, std::nullopt, threads, {}});
  CHECK(is_valid(instance, found.offsets));
  CHECK(found.size == arena_of(instance, found.offsets));
  CHECK(found.bound <= found.size);
  CHECK(found.bound >= edgemem::offset_lower_bound(instance.records()));
  return found;
}

TEST(finds_the_optimum_around_pins) {
  Random random(11);
  std::int64_t proofs = 0;
  for (int round = 0; round < 6000; ++round) {
    const Instance instance = random_pinned_instance(random, 1 + random.below(5), 2 + random.below(6));
    const std::int64_t optimum = Brute(instance).optimum();
    CHECK(edgemem::offset_lower_bound(instance.records()) <= optimum);
    const SearchResult found = search(instance, 20'000);
    CHECK(found.size == optimum);
    CHECK(found.optimal());
    CHECK((found.stopped == Stop::kBound) == (optimum == edgemem::offset_lower_bound(instance.records())));
    proofs += found.stopped == Stop::kProof ? 1 : 0;
    const SearchResult little = search(instance, 3);
    CHECK(little.size >= optimum);
    CHECK(little.bound <= optimum);
  }
  CHECK(proofs > 100);
}

// The lowest address below which that much is free, one by one.
std::int64_t brute_bound(const Instance& instance) {
  const std::int64_t a = instance.alignment;
  const auto padded = [&](std::size_t i) { return (instance.size[i] + a - 1) / a * a; };
  std::int64_t bound = 0;
  for (std::int64_t op = 0; op <= *std::max_element(instance.last.begin(), instance.last.end()); ++op) {
    std::int64_t free = 0;
    std::int64_t padding = 0;
    std::int64_t highest = 0;
    Values taken = instance.reserved;
    for (std::size_t i = 0; i < instance.count(); ++i) {
      if (instance.first[i] > op || instance.last[i] < op || instance.size[i] == 0) continue;
      if (instance.pin_of(i) >= 0) {
        taken.push_back(instance.pin_of(i));
        taken.push_back(instance.pin_of(i) + padded(i));
        highest = std::max(highest, taken.back());
        bound = std::max(bound, instance.pin_of(i) + instance.size[i]);
      } else {
        free += padded(i);
        padding = std::max(padding, padded(i) - instance.size[i]);
      }
    }
    std::int64_t top = 0;
    for (; free > 0; ++top) {
      bool open = true;
      for (std::size_t k = 0; k < taken.size(); k += 2) open = open && (top < taken[k] || top >= taken[k + 1]);
      free -= open ? 1 : 0;
    }
    if (top > highest) bound = std::max(bound, top - padding);
  }
  return bound;
}

TEST(the_bound_around_pins_counts_free_bytes) {
  Random random(12);
  for (int round = 0; round < 3000; ++round) {
    const Instance instance = random_pinned_instance(random, 1 + random.below(8), 2 + random.below(8));
    CHECK(edgemem::offset_lower_bound(instance.records()) == brute_bound(instance));
  }
}

TEST(gaps_around_pins_are_filled_alike_by_both_implementations) {
  Random random(13);
  for (int round = 0; round < 1500; ++round) {
    const Instance instance = random_pinned_instance(random, 1 + random.below(40), 2 + random.below(20));
    Values order(instance.count());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    }
    const Values scanned = edgemem::place_in_smallest_gap(instance.records(), order, 1000);
    CHECK(is_valid(instance, scanned));
    CHECK(edgemem::place_in_smallest_gap(instance.records(), order, 0) == scanned);
  }
}

TEST(large_searches_around_pins_are_valid_and_repeat) {
  Random random(14);
  for (int round = 0; round < 20; ++round) {
    const Instance instance = random_pinned_instance(random, 300, 10 + random.below(200));
    const SearchResult once = search(instance, 30'000, 5);
    CHECK(search(instance, 30'000, 5).offsets == once.offsets);
    CHECK(search(instance, 30'000, 5, 2).size <= once.size);
  }
}

TEST(without_time_all_lies_around_pins) {
  Random random(15);
  for (int round = 0; round < 30; ++round) {
    const Instance instance = random_pinned_instance(random, round < 20 ? 20 : 2000, 100);
    const SearchResult found = edgemem::search_offsets(instance.records(), {1000, 1, 0.0, 1, {}});
    CHECK(is_valid(instance, found.offsets));
    CHECK(found.size == arena_of(instance, found.offsets));
    CHECK(found.bound <= found.size);
  }
}

// A piece comes first on a plateau by resting on one that crosses its wall, which is held up by a pinned one.
TEST(a_piece_may_rest_on_one_that_crosses_the_wall) {
  Instance instance;
  instance.add(2, 2, 5, 0);
  instance.add(2, 2, 10, 6);
  instance.add(0, 1, 10);
  instance.add(1, 2, 1);
  const SearchResult found = search(instance, 10'000);
  CHECK(found.size == 16);
  CHECK((found.offsets == Values{0, 6, 6, 5}));
}

TEST(reserved_ranges_above_all_records_do_not_count) {
  Instance instance;
  instance.add(0, 1, 5);
  instance.add(1, 2, 5);
  instance.reserved = {3, 4, 14, 20, 1000, 2000};
  CHECK(search(instance, 1000).size == 14);
  instance.add(0, 2, 1);
  CHECK(search(instance, 1000).size == 14);
  instance.add(1, 1, 3);
  CHECK(search(instance, 1000).size == 21);
}

// The bound rises by a little, thousands of times, and every search ends at once: their limit must not grow for ever.
TEST(a_bound_that_rises_in_small_steps_below_a_far_pin) {
  Instance instance;
  instance.alignment = 128;
  instance.add(63, 66, 86, -1);
  instance.add(0, 0, 2147483647);
  instance.add(63, 94, 2147483647);
  instance.add(63, 85, 35, 128);
  instance.add(0, 22, 25, 2147483520);
  edgemem::SearchLimits limits;
  limits.work = 3000;
  limits.seed = 230;
  const SearchResult found = search_offsets(instance.records(), limits);
  CHECK(is_valid(instance, found.offsets));
  CHECK(found.size == arena_of(instance, found.offsets) && found.bound <= found.size);
}

// Ceilings that rule all out before the first step are 134 million here; they count as work, so that it ends.
TEST(searches_that_end_at_once_are_work_too) {
  constexpr std::int64_t kLarge = 2147483647;
  Instance instance;
  instance.alignment = 16;
  instance.add(17, 17, kLarge, -1);
  instance.add(0, 23, kLarge);
  instance.add(39, 51, kLarge);
  instance.add(0, 6, kLarge, 2147483632);
  instance.add(0, 31, kLarge);
  edgemem::SearchLimits limits;
  limits.work = 3000;
  const SearchResult found = search_offsets(instance.records(), limits);
  CHECK(is_valid(instance, found.offsets));
  CHECK(found.stopped == Stop::kWork && found.work == limits.work);
}

TEST(pins_that_cannot_be_honoured_are_refused) {
  const auto refused = [](const Instance& instance) {
    try {
      edgemem::search_offsets(instance.records(), {});
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  Instance good;
  good.alignment = 4;
  good.add(0, 1, 6, 8);
  good.add(1, 2, 4, 16);
  good.add(2, 2, 4, 8);
  good.add(2, 2, 0, 8);
  good.reserved = {0, 4, 24, 32};
  CHECK(!refused(good));
  Instance bad = good;
  bad.pinned[1] = 12;
  CHECK(refused(bad));
  bad = good;
  bad.pinned[1] = 18;
  CHECK(refused(bad));
  bad = good;
  bad.pinned[1] = 20;
  bad.size[1] = 8;
  CHECK(refused(bad));
  bad = good;
  bad.pinned[0] = -2;
  CHECK(refused(bad));
  bad = good;
  bad.pinned.pop_back();
  CHECK(refused(bad));
  for (const Values& ranges : {Values{0}, Values{4, 4}, Values{24, 32, 0, 4}, Values{0, 2}, Values{-4, 4}}) {
    bad = good;
    bad.reserved = ranges;
    CHECK(refused(bad));
  }
  bad = good;
  bad.pinned[1] = std::numeric_limits<std::int64_t>::max() - 3;
  CHECK(refused(bad));
}

}  // namespace
