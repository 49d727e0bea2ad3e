// Lets the caller end a kernel that takes long, as Ctrl-C does.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace edgemem {

class Poll {
 public:
  Poll() = default;
  // `call` is called some twenty times a second by the loops that step; what it throws ends the kernel.
  explicit Poll(std::function<void()> call) : call_(std::move(call)) {}

  // Counts one step of a loop, which touches every record at most.
  void step() {
    if (call_ && ++steps_ % kStepsPerLook == 0) look();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kStepsPerLook = 64;
  static constexpr std::chrono::milliseconds kCallEvery{50};

  void look() {
    const Clock::time_point now = Clock::now();
    if (now < next_call_) return;
    next_call_ = now + kCallEvery;
    call_();
  }

  std::function<void()> call_;
  unsigned steps_ = 0;
  Clock::time_point next_call_ = Clock::now() + kCallEvery;
};

}  // namespace edgemem
