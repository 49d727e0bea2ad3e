// How much may still be done: steps, counted the same on every machine, and seconds if the caller asked for a limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace edgemem::search {

class Budget {
 public:
  // Seconds count from now.
  Budget(std::int64_t work, std::optional<double> seconds) : work_(work) {
    if (seconds) {
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
    }
  }

  std::int64_t spent() const { return spent_; }
  bool out_of_work() const { return spent_ >= work_; }
  bool out_of_time() const { return late_; }

  // Counts steps; false when there is nothing left for more.
  bool spend(std::int64_t steps) {
    spent_ += steps;
    since_look_ += steps;
    if (deadline_ && since_look_ >= kLook) {
      since_look_ = 0;
      late_ = late_ || Clock::now() >= *deadline_;
    }
    return !late_ && !out_of_work();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t kLook = 512;  // steps between two looks at the clock

  std::int64_t work_;
  std::int64_t spent_ = 0;
  std::int64_t since_look_ = kLook;
  std::optional<Clock::time_point> deadline_;
  bool late_ = false;
};

}  // namespace edgemem::search
