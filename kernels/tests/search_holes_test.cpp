#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "planner/offsets/search/guess.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/search.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

using edgemem::Budget;
using edgemem::Records;
using edgemem::offset_search::Ceiling;
using edgemem::offset_search::GuessSearch;
using edgemem::offset_search::Holes;
using edgemem::offset_search::Part;

void add(Instance& instance, const Rectangle& r) { instance.add(r.begin, r.end - 1, r.high - r.low); }

Budget plenty() { return {100'000'000, std::nullopt}; }

// The largest part.
Part finely(const Instance& instance) {
  Budget budget = plenty();
  const std::vector<Part> parts = edgemem::offset_search::split(instance.records());
  return edgemem::offset_search::split_finely(instance.records(), parts.front(), budget);
}

void check_placement(const Instance& instance, const Part& pieces, const Values& units, std::int64_t size) {
  Values offset(instance.size.size(), -1);
  for (std::size_t i = 0; i < units.size(); ++i) offset[pieces.record[i]] = units[i] * pieces.unit;
  for (const std::size_t a : pieces.record) {
    CHECK(offset[a] >= 0 && offset[a] + instance.size[a] <= size);
    for (const std::size_t b : pieces.record) {
      if (b >= a) continue;
      const bool together = instance.conflict(a, b);
      CHECK(!together || offset[a] + instance.size[a] <= offset[b] || offset[b] + instance.size[b] <= offset[a]);
    }
  }
}

// A frame of 10 by 10 with two holes, [2, 5) x 3 high and [4, 8) x 2 high.
TEST(holes_are_where_the_load_falls_and_rises_again) {
  Instance instance;
  add(instance, {0, 10, 0, 5});
  for (const std::int64_t t : {0, 1, 8, 9}) add(instance, {t, t + 1, 5, 10});
  add(instance, {2, 4, 5, 7});
  add(instance, {5, 8, 5, 8});
  const Part pieces = finely(instance);
  Budget budget = plenty();
  const std::optional<Holes> holes = edgemem::offset_search::find_holes(pieces, Ceiling(pieces, 10), budget);
  CHECK(holes.has_value());
  CHECK(edgemem::offset_search::missing_room(pieces, Ceiling(pieces, 10)) == 0);
  CHECK(holes->unexplained == 0 && holes->boundary.size() == 4);
  // The sections begin at 0, 1, 2, 4, 5, 8, 9; what follows the two pairs' first boundaries is their height.
  std::vector<std::pair<std::int32_t, std::int64_t>> rooms;
  for (std::size_t i = 0; i < holes->boundary.size(); ++i) rooms.emplace_back(holes->boundary[i], holes->room[i]);
  std::sort(rooms.begin(), rooms.end());
  CHECK((rooms == std::vector<std::pair<std::int32_t, std::int64_t>>{{2, 3}, {3, 2}, {4, 0}, {5, 0}}));
  for (std::size_t t = 0; t < holes->index_of.size(); ++t) {
    const std::int32_t i = holes->index_of[t];
    CHECK(i < 0 || holes->boundary[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(t));
  }
}

// The room of all groups together is the slack, whatever the groups are.
TEST(holes_use_up_the_slack) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Instance instance;
    const std::vector<Rectangle> pieces = random_tiling(60, seed);
    for (std::size_t i = 4; i < pieces.size(); ++i) add(instance, pieces[i]);
    const Part fine = finely(instance);
    const Ceiling ceiling(fine, 1 << 20);
    Budget budget = plenty();
    const std::optional<Holes> holes = edgemem::offset_search::find_holes(fine, ceiling, budget);
    CHECK(holes.has_value());
    Values room(fine.load.size() + 1);
    for (std::size_t i = 0; i < holes->boundary.size(); ++i) {
      const bool last = holes->group_end[i] == static_cast<std::int32_t>(i) + 1;
      CHECK(holes->room[i] >= 0 && (!last || holes->room[i] == 0));
      const auto from = static_cast<std::size_t>(holes->boundary[i]);
      const auto to = last ? from : static_cast<std::size_t>(holes->boundary[i + 1]);
      for (std::size_t t = from; t < to; ++t) room[t] += holes->room[i];
    }
    for (std::size_t t = 0; t < fine.load.size(); ++t) {
      CHECK(fine.load[t] + room[t] == ceiling.over(fine.least_tail[t]));
    }
  }
}

TEST(puzzles_with_pieces_missing_are_solved) {
  for (const std::size_t missing : {std::size_t{1}, std::size_t{4}, std::size_t{10}}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Instance instance;
      const std::vector<Rectangle> pieces = random_tiling(200, seed);
      for (std::size_t i = missing; i < pieces.size(); ++i) add(instance, pieces[i]);
      const std::vector<Part> parts = edgemem::offset_search::split(instance.records());
      Budget budget = plenty();
      GuessSearch guess(instance.records(), parts.front(), 1 << 20, 2 << 20, seed, budget);
      bool found = false;
      for (int k = 0; k < 50 && !found && !guess.is_exhausted(2 << 20); ++k) found = guess.search_once(2 << 20, budget);
      CHECK(found);
      if (found) check_placement(instance, parts.front(), guess.offsets(), 1 << 20);
    }
  }
}

// Whatever a random problem's load looks like, what is found is a placement.
TEST(guesses_that_are_wrong_do_no_harm) {
  std::mt19937_64 random(7);
  int found = 0;
  for (int round = 0; round < 1000; ++round) {
    Instance instance;
    const std::int64_t count = 2 + static_cast<std::int64_t>(random() % 9);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 7);
      add(instance,
          {begin, begin + 1 + static_cast<std::int64_t>(random() % 5), 0, 1 + static_cast<std::int64_t>(random() % 9)});
    }
    const std::vector<Part> parts = edgemem::offset_search::split(instance.records());
    if (parts.size() != 1 || parts.front().sections() < 2) continue;
    const std::int64_t goal = parts.front().bound + static_cast<std::int64_t>(random() % 3);
    Budget budget = plenty();
    GuessSearch guess(instance.records(), parts.front(), goal, goal + 100, 1, budget);
    for (int k = 0; k < 4 && !guess.is_exhausted(goal + 100); ++k) {
      if (!guess.search_once(goal + 100, budget)) continue;
      check_placement(instance, parts.front(), guess.offsets(), goal + 100);
      ++found;
    }
  }
  CHECK(found > 100);
}

}  // namespace
