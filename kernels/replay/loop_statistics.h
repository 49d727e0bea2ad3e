// The counts of a loop: of the iteration that is on, of the last one, and of all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/edgemem_arena.h"

namespace edgemem {

class LoopStatistics {
 public:
  using Count = int64_t em_loop_stats::*;

  void start() noexcept { *this = {}; }

  void begin_iteration() noexcept {
    now_ = {};
    now_.arena_peak = in_arena_;
    now_.fallback_peak = in_fallback_;
  }
  void end_iteration() noexcept {
    now_.iterations = 1;
    ++total_.iterations;
    last_ = now_;
  }

  // Of a request within an iteration: it counts in `what`.
  void count(Count what) noexcept {
    ++(now_.*what);
    ++(total_.*what);
    ++now_.requests;
    ++total_.requests;
  }
  void count_missed(Count what, int64_t bytes) noexcept {
    count(what);
    now_.missed_bytes += bytes;
    total_.missed_bytes += bytes;
  }
  void count_unnoted() noexcept {
    ++now_.unnoted;
    ++total_.unnoted;
  }

  // Negative bytes when freed.
  void add_arena(int64_t bytes) noexcept { add(bytes, in_arena_, &em_loop_stats::arena_peak); }
  void add_fallback(int64_t bytes) noexcept { add(bytes, in_fallback_, &em_loop_stats::fallback_peak); }

  const em_loop_stats& last() const noexcept { return last_; }
  const em_loop_stats& total() const noexcept { return total_; }

 private:
  void add(int64_t bytes, int64_t& alive, Count peak) noexcept {
    alive += bytes;
    now_.*peak = std::max(now_.*peak, alive);
    total_.*peak = std::max(total_.*peak, alive);
  }

  em_loop_stats now_{};
  em_loop_stats last_{};
  em_loop_stats total_{};
  int64_t in_arena_ = 0;  // bytes
  int64_t in_fallback_ = 0;
};

}  // namespace edgemem
