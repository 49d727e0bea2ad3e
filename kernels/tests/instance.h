// Offset problems that a test owns, made by hand or at random, and plans of them checked pair by pair.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "planner/common/records.h"

using Values = std::vector<std::int64_t>;

struct Instance {
  Values first, last, size;
  std::int64_t alignment = 1;
  Values pinned{};    // offsets, -1 for a free record; empty if all are free
  Values reserved{};  // begin and end of each range, alternating

  std::size_t count() const { return first.size(); }
  edgemem::Records records() const { return {first, last, size, alignment, pinned, reserved}; }

  // `offset`: where the record is pinned; -1 leaves it free, but makes the column of pinned offsets.
  void add(std::int64_t first_op, std::int64_t last_op, std::int64_t bytes, std::optional<std::int64_t> offset = {}) {
    if (offset) pinned.resize(count(), -1);
    if (offset || !pinned.empty()) pinned.push_back(offset.value_or(-1));
    first.push_back(first_op);
    last.push_back(last_op);
    size.push_back(bytes);
  }

  std::int64_t pin_of(std::size_t i) const { return pinned.empty() ? -1 : pinned[i]; }
  std::int64_t aligned(std::int64_t address) const { return (address + alignment - 1) / alignment * alignment; }
  std::int64_t padded(std::size_t i) const { return aligned(size[i]); }
  bool conflict(std::size_t a, std::size_t b) const { return first[a] <= last[b] && first[b] <= last[a]; }

  // Whether record i may be at `offset`, with the others that have one (-1: none).
  bool fits(std::size_t i, std::int64_t offset, const Values& offsets) const {
    const std::int64_t end = offset + size[i];
    for (std::size_t k = 0; k < reserved.size(); k += 2) {
      if (offset < reserved[k + 1] && reserved[k] < end) return false;
    }
    for (std::size_t j = 0; j < count(); ++j) {
      if (j == i || offsets[j] < 0 || size[j] == 0 || !conflict(i, j)) continue;
      if (offset < offsets[j] + size[j] && offsets[j] < end) return false;
    }
    return true;
  }
};

// The arena that the offsets need.
inline std::int64_t arena_of(const Instance& instance, const Values& offsets) {
  std::int64_t top = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (instance.size[i] > 0) top = std::max(top, offsets[i] + instance.size[i]);
  }
  return top;
}

// Whether every record is aligned, where it is pinned, in no reserved range, and on no other that is alive with it.
inline bool is_valid(const Instance& instance, const Values& offsets) {
  if (offsets.size() != instance.count()) return false;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (instance.size[i] == 0) {
      if (offsets[i] != 0) return false;
      continue;
    }
    if (offsets[i] < 0 || offsets[i] % instance.alignment != 0 || !instance.fits(i, offsets[i], offsets)) return false;
    if (instance.pin_of(i) >= 0 && offsets[i] != instance.pin_of(i)) return false;
  }
  return true;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // From 0 to limit - 1.
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// Records that begin at operators below `horizon`, with up to `longest` operators and `largest` bytes.
inline Instance random_records(Random& random, std::int64_t count, std::int64_t horizon, std::int64_t longest,
                               std::int64_t largest) {
  Instance made;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = random.below(horizon);
    const std::int64_t last = first + random.below(longest);
    made.add(first, last, random.below(largest + 1));
  }
  return made;
}

// Up to `most` short records over few operators, some with an alignment: what brute force can solve.
inline Instance random_small_instance(Random& random, std::int64_t most) {
  const std::int64_t alignment = random.below(3) == 0 ? std::int64_t{1} << random.below(6) : 1;
  const std::int64_t count = 1 + random.below(most);
  const std::int64_t horizon = 1 + random.below(7);
  const std::int64_t longest = 1 + random.below(5);
  const std::int64_t largest = random.below(2) == 0 ? 4 : 100;
  Instance made = random_records(random, count, horizon, longest, largest);
  made.alignment = alignment;
  return made;
}

// About `free` free records, some that are pinned where they can be, some reserved ranges.
inline Instance random_pinned_instance(Random& random, std::int64_t free, std::int64_t operators) {
  Instance made;
  made.alignment = random.below(3) == 0 ? 4 : 1;
  const std::int64_t scale = random.below(4) == 0 ? 3 : 1;  // for a common divisor
  const std::int64_t most = 1 + random.below(8);
  std::int64_t reached = 0;
  for (std::int64_t ranges = random.below(3); ranges > 0; --ranges) {
    const std::int64_t begin = reached + random.below(6) * scale;
    reached = begin + (1 + random.below(4)) * scale;
    if (!made.reserved.empty() && begin == made.reserved.back() / made.alignment) continue;
    made.reserved.push_back(begin * made.alignment);
    made.reserved.push_back(reached * made.alignment);
  }
  const auto add = [&](bool pinned) {
    const std::int64_t first = random.below(operators);
    const std::int64_t last = std::min(operators - 1, first + random.below(operators));
    std::int64_t size = (1 + random.below(most)) * scale * made.alignment;
    if (made.alignment > 1) size -= random.below(made.alignment);
    if (random.below(20) == 0) size = 0;
    const std::int64_t offset = random.below(14) * scale * made.alignment;
    made.add(first, last, size, -1);
    if (!pinned || (size > 0 && !made.fits(made.count() - 1, offset, made.pinned))) return;
    made.pinned.back() = offset;
  };
  for (std::int64_t pins = random.below(5); pins > 0; --pins) add(true);
  const std::int64_t left = std::max<std::int64_t>(0, free - std::count(made.pinned.begin(), made.pinned.end(), -1));
  for (std::int64_t k = left; k > 0; --k) add(false);
  return made;
}

// One whose smallest arena is 5, above its bound of 4; changed a little at random, it is often still above.
inline Instance gap_instance(Random* random) {
  constexpr std::int64_t kRows[8][3] = {{0, 0, 2}, {0, 1, 2}, {1, 2, 1}, {1, 3, 1},
                                        {2, 2, 1}, {2, 3, 1}, {3, 5, 2}, {4, 5, 2}};
  Instance made;
  for (const auto& [first, last, size] : kRows) {
    if (random == nullptr) {
      made.add(first, last, size);
    } else if (random->below(12) > 0) {
      made.add(first, last + (random->below(8) == 0 ? 1 : 0), 2 * size + (random->below(9) == 0 ? 1 : 0));
    }
  }
  if (random != nullptr && random->below(3) == 0) made.alignment = 2;
  return made;
}

struct Rectangle {
  std::int64_t begin, end, low, high;  // operators and bytes, half-open
};

// A square of 2^20 operators and bytes, cut straight through again and again, its pieces shuffled: no plan of all of
// them is smaller than 2^20, and one is as small.
inline std::vector<Rectangle> random_tiling(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Rectangle> pieces{{0, 1 << 20, 0, 1 << 20}};
  while (pieces.size() < count) {
    const auto largest = std::max_element(pieces.begin(), pieces.end(), [](const Rectangle& a, const Rectangle& b) {
      return (a.end - a.begin) * (a.high - a.low) < (b.end - b.begin) * (b.high - b.low);
    });
    Rectangle rest = *largest;
    const std::int64_t share = 25 + random.below(51);
    if (rest.end - rest.begin > rest.high - rest.low) {
      largest->end = rest.begin = rest.begin + (rest.end - rest.begin) * share / 100;
    } else {
      largest->high = rest.low = rest.low + (rest.high - rest.low) * share / 100;
    }
    pieces.push_back(rest);
  }
  std::shuffle(pieces.begin(), pieces.end(), random.engine());
  return pieces;
}
