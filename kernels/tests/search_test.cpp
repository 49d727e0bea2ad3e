#include "planner/offsets/search/search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::Budget;
using edgemem::Records;
using edgemem::SearchLimits;
using edgemem::SearchResult;
using edgemem::Stop;
using edgemem::offset_search::Ceiling;
using edgemem::offset_search::Outcome;
using edgemem::offset_search::PlateauSearch;

// The smallest arena: in some order of rising offsets, each record lies as low as those before it let it.
class Brute {
 public:
  explicit Brute(const Instance& instance) : instance_(instance), offsets_(instance.count()) {
    bound_ = edgemem::offset_lower_bound(instance.records());
    for (std::size_t i = 0; i < instance.count(); ++i) {
      if (instance.size[i] > 0) left_.push_back(i);
    }
  }

  std::int64_t optimum() {
    if (left_.empty()) return 0;
    place(0, 0);
    return best_;
  }

 private:
  void place(std::int64_t lowest, std::int64_t peak) {
    if (left_.empty()) best_ = std::min(best_, peak);
    for (std::size_t k = 0; k < left_.size() && best_ > bound_; ++k) {
      const std::size_t i = left_[k];
      std::int64_t offset = 0;
      for (const std::size_t j : placed_) {
        if (instance_.conflict(i, j)) offset = std::max(offset, instance_.aligned(offsets_[j] + instance_.size[j]));
      }
      const std::int64_t higher = std::max(peak, offset + instance_.size[i]);
      if (offset < lowest || higher >= best_) continue;
      offsets_[i] = offset;
      placed_.push_back(i);
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(k));
      place(offset, higher);
      left_.insert(left_.begin() + static_cast<std::ptrdiff_t>(k), i);
      placed_.pop_back();
    }
  }

  const Instance& instance_;
  Values offsets_;
  std::vector<std::size_t> placed_;
  std::vector<std::size_t> left_;
  std::int64_t bound_ = 0;
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

void check_result(const Instance& instance, const SearchResult& result) {
  CHECK(is_valid(instance, result.offsets));
  CHECK(result.size == arena_of(instance, result.offsets) && result.bound <= result.size);
  CHECK(result.stopped == Stop::kTime || result.bound >= edgemem::offset_lower_bound(instance.records()));
}

// Rows of bricks, each row shifted by half a brick: `rows` high without waste.
Instance brick_wall(std::int64_t rows, std::int64_t columns) {
  Instance instance;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = -(r % 2); c < 2 * columns; c += 2) {
      instance.add(std::max<std::int64_t>(c, 0), std::min(c + 1, 2 * columns - 1), 7 + 5 * r);
    }
  }
  return instance;
}

TEST(search_equals_brute_force) {
  Random random(11);
  int proofs = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    const Instance instance = round % 3 == 0 ? gap_instance(&random) : random_small_instance(random, 8);
    SearchLimits limits;
    limits.work = 100'000;
    limits.seed = static_cast<std::uint64_t>(round);
    const SearchResult result = edgemem::search_offsets(instance.records(), limits);
    check_result(instance, result);
    CHECK(result.size == Brute(instance).optimum());
    CHECK(result.optimal());
    CHECK((result.stopped == Stop::kProof) == (result.size > edgemem::offset_lower_bound(instance.records())));
    proofs += result.stopped == Stop::kProof ? 1 : 0;
  }
  CHECK(proofs > 20);
}

TEST(search_with_little_work_is_valid_and_says_nothing_wrong) {
  Random random(12);
  for (int round = 0; round < 2000; ++round) {
    const Instance instance = round % 2 == 0 ? gap_instance(&random) : random_small_instance(random, 8);
    SearchLimits limits;
    limits.work = random.below(60);
    const SearchResult result = edgemem::search_offsets(instance.records(), limits);
    check_result(instance, result);
    const std::int64_t optimum = Brute(instance).optimum();
    CHECK(result.bound <= optimum && optimum <= result.size);
  }
}

TEST(plateau_search_decides_every_ceiling) {
  Random random(13);
  for (int round = 0; round < 500; ++round) {
    const Instance instance = round % 2 == 0 ? gap_instance(&random) : random_small_instance(random, 7);
    const std::vector<edgemem::offset_search::Part> parts = edgemem::offset_search::split(instance.records());
    if (parts.size() != 1) continue;
    const edgemem::offset_search::Part& pieces = parts.front();
    const std::int64_t optimum = Brute(instance).optimum();
    PlateauSearch search(pieces);
    const std::vector<double> weight(static_cast<std::size_t>(pieces.count()), 1.0);
    // One object for all ceilings: what failed at one must not be taken for a failure at another.
    for (std::int64_t size = std::max<std::int64_t>(1, optimum - 9); size < optimum + 9; ++size) {
      Budget budget(1'000'000, std::nullopt);
      const PlateauSearch::Ordering ordering{size % 2 == 0, size % 3 == 0};
      const Outcome outcome = search.run(Ceiling(pieces, size), weight, ordering, {1'000'000}, budget);
      CHECK(outcome == (size < optimum ? Outcome::kNone : Outcome::kFound));
      if (outcome == Outcome::kFound) CHECK(edgemem::offset_search::peak(pieces, search.offsets()) <= size);
    }
  }
}

TEST(search_proves_what_the_load_does_not_show) {
  const Instance instance = gap_instance(nullptr);
  const SearchResult result = edgemem::search_offsets(instance.records(), {});
  check_result(instance, result);
  CHECK(edgemem::offset_lower_bound(instance.records()) == 4);
  CHECK(result.size == 5 && result.bound == 5 && result.stopped == Stop::kProof);
}

TEST(search_fills_a_wall_of_bricks) {
  for (const std::int64_t columns : {1, 2, 10, 100}) {
    const Instance instance = brick_wall(8, columns);
    SearchLimits limits;
    limits.work = 200'000;
    const SearchResult result = edgemem::search_offsets(instance.records(), limits);
    check_result(instance, result);
    CHECK(result.stopped == Stop::kBound && result.optimal());
  }
}

TEST(search_repeats_itself) {
  Random random(14);
  Instance instance;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t first = random.below(200);
    instance.add(first, first + random.below(60), 1 + random.below(1000));
  }
  SearchLimits limits;
  limits.work = 30'000;
  const SearchResult once = edgemem::search_offsets(instance.records(), limits);
  const SearchResult twice = edgemem::search_offsets(instance.records(), limits);
  check_result(instance, once);
  CHECK(once.offsets == twice.offsets && once.work == twice.work && once.bound == twice.bound);
  // More work never gives a larger arena: it goes on where less work ended.
  limits.work = 300'000;
  CHECK(edgemem::search_offsets(instance.records(), limits).size <= once.size);
}

TEST(search_without_time_is_still_valid) {
  Random random(15);
  Instance instance;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t first = random.below(2000);
    instance.add(first, first + random.below(60), 1 + random.below(1000));
  }
  SearchLimits limits;
  limits.seconds = 0.0;
  const SearchResult result = edgemem::search_offsets(instance.records(), limits);
  check_result(instance, result);
  CHECK(result.stopped == Stop::kTime);
}

TEST(search_takes_what_is_empty_and_refuses_what_is_wrong) {
  CHECK(edgemem::search_offsets({}, {}).size == 0);
  Instance instance;
  instance.add(0, 5, 0);
  const SearchResult result = edgemem::search_offsets(instance.records(), {});
  CHECK(result.size == 0 && result.optimal() && result.offsets == Values{0});
  instance.add(3, 2, 1);
  CHECK_REFUSED(edgemem::search_offsets(instance.records(), {}));
}

}  // namespace
