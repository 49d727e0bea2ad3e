// What a policy of rematerialisation decides, each part alone (Coop, section 3; DTR, section 4; MegTaiChi's DTE).
#pragma once

#include <cstdint>

namespace edgemem::remat {

// c: cost to make the value again, with all evicted values that this needs or that need it (values.h);
// m: bytes it takes in the pool; s: time since its last access, at least 1.
enum class Heuristic : std::int64_t {
  kDtr = 0,   // c / (m s)
  kDte = 1,   // c / ((m + free bytes on both sides of it) s)
  kCoop = 2,  // c / s
};

enum class Search : std::int64_t {
  kOneByOne = 0,       // evicts the value of the least heuristic, searches again until the request fits
  kWindow = 1,         // one search: the contiguous values of the least sum (window.h)
  kWindowPerByte = 2,  // the same with the least sum per byte
};

enum class Fit : std::int64_t {
  kLeftmost = 0,  // the free block with the lowest address that is large enough
  kBest = 1,      // the smallest free block that is large enough, the one with the lowest address among equals
};

struct Rules {
  Heuristic heuristic = Heuristic::kCoop;
  Search search = Search::kWindow;
  // Of the free block for a request.
  Fit fit = Fit::kLeftmost;
  // Cheap tensor partitioning (Coop 3.4): what is cheap goes to the right end of its free block, which is then the
  // rightmost for `Fit::kLeftmost`; what is expensive to the left end, as everything does without partitioning.
  bool partition = true;
  // Recomputable in-place (Coop 3.5): the new version takes the memory of the old one, which is evicted by that. False:
  // copy on write, the new version gets memory of its own (DTR).
  //
  // Deviation: what cannot be made again, such as a parameter, is written where it lies in any case, as the runtime
  // does. Copied on write it is a value that may be evicted; to make that again takes the training step before.
  bool in_place = true;
  // Constants go to the left end of the leftmost free block that is large enough or to the right end of the rightmost:
  // whichever is nearer to its end of the pool, the left one if both are as near. False: as any other request that is
  // expensive.
  bool constants_at_ends = true;
  // Small values apart: requests of at most 1/65536 of the budget are served from a small pool of their own, 1/256 of
  // the budget, leftmost fit. Where that is full they are served as the others; a budget of fewer than 65536 aligned
  // pieces has none. Without it, a constant of some bytes in the middle of the pool parts what could be evicted
  // together. Nothing in the small pool is evicted to make room.
  //
  // Deviation: not in the papers. Allocators of frameworks do the same (PyTorch: segments of 2 MiB for requests up to
  // 1 MiB). Measured on U-Net at half of the peak: without it Coop runs out of memory.
  bool small_apart = true;
};

// What is asked for, where that decides its place.
enum class Kind : std::int64_t { kCheap = 0, kExpensive = 1, kConstant = 2 };

}  // namespace edgemem::remat
