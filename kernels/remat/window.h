// The cheapest contiguous blocks that hold a request (Coop, section 3.3), by two pointers in one pass.
//
//   blocks    | 2 MiB, 0.3 | free 1 MiB | 1 MiB, 0.1 | 4 MiB, locked | 2 MiB, 0.2 | free 1 MiB |
//   3 MiB:    [  0.3 ......................]                          [  0.2 ...................]  <- least sum
//                          [ too small ....]
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgemem::remat {

// A block of the pool, as the window sees it.
struct WindowBlock {
  static constexpr double kUnevictable = -1;

  std::int64_t bytes;
  double heuristic;  // of its eviction, 0 if it is free; any number below 0: it cannot be evicted
  bool is_free;
};

// Blocks [first, last] of the layout; `found` is false if no run of them is large enough.
struct Window {
  bool found = false;
  std::size_t first = 0;
  std::size_t last = 0;
};

// What is least of the window that is found, of those below.
enum class Objective {
  kSum,      // of its heuristics: the paper's
  kPerByte,  // the sum / all bytes of the window
};

// A window is a run of neighbouring blocks without an unevictable one that has at least `bytes` > 0, and would not
// without its first block. The one with the least objective; among equals, the fewest bytes evicted (bytes of blocks
// that are not free), then the lowest end. With kSum, no longer run has a smaller sum either.
//
// The sums are exact, so that a sum that runs along is the sum that one would get from nothing: a heuristic counts as
// the whole number of 2^-64 parts that is not above it, and as 2^40 if it is above that or not a number. Sums per byte
// are compared as doubles: (double(whole part) + double(parts) 2^-64) / double(bytes).
//
// Deviation: kPerByte is not in the paper. A window of the least sum may be of small values that are dear for what they
// free, when a large one beside them is cheap and would serve many requests to come. Measured on a Transformer
// (docs/rematerialisation.md): half of the recomputation.
Window cheapest_window(std::span<const WindowBlock> blocks, std::int64_t bytes, Objective objective = Objective::kSum);

}  // namespace edgemem::remat
