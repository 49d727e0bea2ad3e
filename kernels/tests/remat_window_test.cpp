#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "remat/window.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::remat::cheapest_window;
using edgemem::remat::Objective;
using edgemem::remat::Window;
using edgemem::remat::WindowBlock;

constexpr double kUnevictable = WindowBlock::kUnevictable;

WindowBlock used(std::int64_t bytes, double heuristic) { return {bytes, heuristic, false}; }
WindowBlock unused(std::int64_t bytes) { return {bytes, 0, true}; }

void check_window(const std::vector<WindowBlock>& blocks, std::int64_t bytes, std::size_t first, std::size_t last) {
  const Window found = cheapest_window(blocks, bytes);
  CHECK(found.found && found.first == first && found.last == last);
}

// All windows; the heuristics are multiples of 1/8, so that doubles add them exactly.
Window brute_force(const std::vector<WindowBlock>& blocks, std::int64_t bytes, Objective objective) {
  using Key = std::tuple<double, std::int64_t, std::size_t, std::size_t>;
  Window best;
  Key least;
  for (std::size_t first = 0; first < blocks.size(); ++first) {
    double cost = 0;
    std::int64_t room = 0, evicted = 0;
    for (std::size_t last = first; last < blocks.size() && blocks[last].heuristic >= 0; ++last) {
      cost += blocks[last].heuristic;
      room += blocks[last].bytes;
      evicted += blocks[last].is_free ? 0 : blocks[last].bytes;
      const bool is_per_byte = objective == Objective::kPerByte;
      if (is_per_byte && room - blocks[first].bytes >= bytes) break;
      const Key key{is_per_byte ? cost / static_cast<double>(room) : cost, evicted, last, last - first};
      if (room < bytes || (best.found && !(key < least))) continue;
      best = {true, first, last};
      least = key;
    }
  }
  return best;
}

}  // namespace

TEST(remat_window_is_the_cheapest_run_of_the_drawing) {
  check_window({used(2, 0.3), unused(1), used(1, 0.1), used(4, kUnevictable), used(2, 0.2), unused(1)}, 3, 4, 5);
}

TEST(remat_window_crosses_nothing_that_cannot_be_evicted) {
  CHECK(!cheapest_window(std::vector{used(2, 1), used(1, kUnevictable), used(2, 1)}, 3).found);
  CHECK(!cheapest_window({}, 1).found);
  check_window({used(2, 1), used(1, kUnevictable), used(2, 5), used(2, 5)}, 3, 2, 3);
}

TEST(remat_window_breaks_ties_by_bytes_evicted_then_address) {
  check_window({used(4, 1), used(3, 1), used(3, 1)}, 3, 1, 1);
  check_window({unused(1), used(3, 1), unused(2)}, 3, 1, 1);
  check_window({used(2, 0), unused(4), used(2, 0)}, 4, 1, 1);
}

TEST(remat_window_adds_heuristics_exactly) {
  // In doubles, 2^39 swallows what is beside it: a running sum would forget the small ones.
  const double huge = std::ldexp(1.0, 39), small = std::ldexp(1.0, -60);
  check_window({used(1, huge), used(1, 2 * small), used(1, small), used(1, huge), used(1, small), used(1, small)}, 2, 4,
               5);
  // Above 2^40, all are the same; so is what is not a number.
  check_window({used(2, std::ldexp(1.0, 50)), used(1, std::ldexp(1.0, 45)), used(2, std::nan(""))}, 1, 1, 1);
}

TEST(remat_window_may_be_the_cheapest_per_byte) {
  const std::vector<WindowBlock> blocks{used(1, 2), used(8, 4)};
  CHECK(cheapest_window(blocks, 1).last == 0);
  CHECK(cheapest_window(blocks, 1, Objective::kPerByte).last == 1);
}

TEST(remat_window_equals_brute_force) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  for (int round = 0; round < 4000; ++round) {
    std::vector<WindowBlock> blocks;
    const std::int64_t count = below(14), steps = 1 + below(20);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t bytes = 1 + below(6);
      const bool is_free = below(4) == 0 && (blocks.empty() || !blocks.back().is_free);
      const bool is_locked = below(7) == 0;
      const double heuristic =
          is_locked ? kUnevictable : static_cast<double>(below(static_cast<std::uint64_t>(steps))) / 8;
      blocks.push_back(is_free ? unused(bytes) : used(bytes, heuristic));
    }
    const std::int64_t bytes = 1 + below(25);
    for (const Objective objective : {Objective::kSum, Objective::kPerByte}) {
      const Window expected = brute_force(blocks, bytes, objective), found = cheapest_window(blocks, bytes, objective);
      CHECK(found.found == expected.found && found.first == expected.first && found.last == expected.last);
    }
  }
}
