#include "remat/window.h"

#include <cmath>
#include <compare>
#include <tuple>

namespace edgemem::remat {

namespace {

// A sum of heuristics: whole + part 2^-64. Of fewer than 2^24 blocks, so that it has room.
struct Sum {
  std::uint64_t whole = 0;
  std::uint64_t part = 0;

  auto operator<=>(const Sum&) const = default;

  Sum& operator+=(const Sum& other) {
    part += other.part;
    whole += other.whole + (part < other.part ? 1 : 0);
    return *this;
  }
  Sum& operator-=(const Sum& other) {
    whole -= other.whole + (part < other.part ? 1 : 0);
    part -= other.part;
    return *this;
  }
  double value() const { return static_cast<double>(whole) + std::ldexp(static_cast<double>(part), -64); }
};

Sum sum_of(double heuristic) {
  constexpr double kMost = 1099511627776.0;          // 2^40
  constexpr double kParts = 18446744073709551616.0;  // 2^64
  if (!(heuristic < kMost)) return {static_cast<std::uint64_t>(kMost), 0};
  const auto whole = static_cast<std::uint64_t>(heuristic);
  return {whole, static_cast<std::uint64_t>((heuristic - static_cast<double>(whole)) * kParts)};
}

}  // namespace

Window cheapest_window(std::span<const WindowBlock> blocks, std::int64_t bytes, Objective objective) {
  Window best;
  std::tuple<double, Sum, std::int64_t> best_key;
  std::size_t first = 0;
  Sum sum;
  std::int64_t room = 0, evicted = 0;
  for (std::size_t last = 0; last < blocks.size(); ++last) {
    if (blocks[last].heuristic < 0) {
      first = last + 1;
      sum = {};
      room = evicted = 0;
      continue;
    }
    const auto evicted_of = [&](std::size_t i) { return blocks[i].is_free ? 0 : blocks[i].bytes; };
    sum += sum_of(blocks[last].heuristic);
    room += blocks[last].bytes;
    evicted += evicted_of(last);
    // The shortest window that ends here: none that ends here is cheaper, or evicts less.
    for (; room - blocks[first].bytes >= bytes; ++first) {
      sum -= sum_of(blocks[first].heuristic);
      room -= blocks[first].bytes;
      evicted -= evicted_of(first);
    }
    if (room < bytes) continue;
    const bool is_per_byte = objective == Objective::kPerByte;
    const std::tuple key(is_per_byte ? sum.value() / static_cast<double>(room) : 0.0, is_per_byte ? Sum{} : sum,
                         evicted);
    if (!best.found || key < best_key) {
      best = {true, first, last};
      best_key = key;
    }
  }
  return best;
}

}  // namespace edgemem::remat
