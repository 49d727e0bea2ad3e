// The counts of one run, and the bytes that are alive in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/edgemem_arena.h"

namespace edgemem {

class RunStatistics {
 public:
  void start() noexcept {
    *this = {};
    counts_.bail = -1;
  }

  int64_t count_request() noexcept { return counts_.requests++; }  // the number of the new request
  void count_failure() noexcept { ++counts_.failed; }

  void take_place(int64_t offset, int64_t bytes) noexcept {
    ++counts_.hits;
    counts_.arena_top = std::max(counts_.arena_top, offset + bytes);
    in_arena_ += bytes;
    counts_.peak = std::max(counts_.peak, in_arena_ + in_heap_);
  }
  void free_place(int64_t bytes) noexcept { in_arena_ -= bytes; }

  void take_block(int64_t bytes) noexcept {
    ++counts_.misses;
    in_heap_ += bytes;
    counts_.peak = std::max(counts_.peak, in_arena_ + in_heap_);
    counts_.heap_peak = std::max(counts_.heap_peak, in_heap_);
  }
  void free_block(int64_t bytes) noexcept { in_heap_ -= bytes; }

  void count_event() noexcept { ++counts_.events; }

  // The event that comes now is not as planned; the first one counts.
  void deviate() noexcept {
    if (counts_.bail < 0) {
      counts_.bail = counts_.events;
    }
  }

  // All counts, with the number of blocks left in the arena, which is known elsewhere.
  em_stats summary(int64_t left) const noexcept {
    em_stats all = counts_;
    all.left = left;
    return all;
  }

 private:
  em_stats counts_{};
  int64_t in_arena_ = 0;  // bytes
  int64_t in_heap_ = 0;
};

}  // namespace edgemem
