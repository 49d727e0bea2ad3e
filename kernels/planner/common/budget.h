// How much a search may still do: steps, counted the same on every machine, and seconds if the caller set a limit.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

namespace edgemem {

struct OutOfTime {};  // thrown out of a loop that counts no steps when time is up

class Budget {
 public:
  // `work`: steps. `seconds`: counted from now; without them time is unlimited. `pieces`: how many records one step may
  // touch; the more, the more often the clock is read.
  // Throws std::invalid_argument for seconds that are negative or no number.
  Budget(std::int64_t work, std::optional<double> seconds, std::size_t pieces = 0)
      : work_(work),
        steps_per_look_(
            std::clamp<std::int64_t>(kPiecesPerLook / static_cast<std::int64_t>(pieces + 1), 1, kMostStepsPerLook)) {
    if (!seconds) return;
    if (!(*seconds >= 0)) throw std::invalid_argument("the time limit is not a number of seconds from 0");
    if (*seconds >= kForever) return;
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
    watched_ = true;
  }

  // `poll` is called some twenty times a second; what it throws ends the search.
  void poll(std::function<void()> poll) {
    poll_ = std::move(poll);
    watched_ = watched_ || poll_;
  }
  // Time is up once more than `*work` steps are done; another thread may lower `*work` at any moment.
  void stop_beyond(const std::atomic<std::int64_t>* work) {
    rival_work_ = work;
    watched_ = true;
  }
  // Ends the time earlier by that much, for what the caller does after the last look at the clock.
  void keep_back(std::chrono::nanoseconds time) {
    if (deadline_) *deadline_ -= std::chrono::duration_cast<Clock::duration>(time);
  }

  std::int64_t spent() const { return spent_; }
  bool out_of_work() const { return spent_ >= work_; }
  bool out_of_time() const { return time_is_up_; }
  bool timed() const { return deadline_.has_value(); }

  // Counts steps. Returns whether work and time are left for more.
  bool spend(std::int64_t steps) {
    spent_ += steps;
    since_look_ += steps;
    if (watched_ && since_look_ >= steps_per_look_) look();
    return !time_is_up_ && !out_of_work();
  }

  // For loops that count no steps: counts `items` towards the next look at the clock. Throws OutOfTime.
  void pass(std::int64_t items = 1) {
    items_ += items;
    if (watched_ && (time_is_up_ || items_ >= kItemsPerLook)) {
      look();
      if (time_is_up_) throw OutOfTime{};
    }
  }

  // std::sort. Throws OutOfTime, and then leaves the range half sorted.
  template <class Iterator, class Less>
  void sort(Iterator begin, Iterator end, Less less) {
    if (!watched_) return std::sort(begin, end, less);
    std::sort(begin, end, [&](const auto& a, const auto& b) {
      pass();
      return less(a, b);
    });
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kForever = 1e9;                  // seconds; more would overflow the clock
  static constexpr std::int64_t kMostStepsPerLook = 512;   // between two looks at the clock
  static constexpr std::int64_t kPiecesPerLook = 1 << 16;  // steps times pieces, between two looks
  static constexpr std::int64_t kItemsPerLook = 1 << 13;   // items passed between two looks
  static constexpr std::chrono::milliseconds kPollEvery{50};

  void look() {
    since_look_ = 0;
    items_ = 0;
    if (rival_work_ && spent_ > rival_work_->load(std::memory_order_relaxed)) time_is_up_ = true;
    if (!deadline_ && !poll_) return;
    const Clock::time_point now = Clock::now();
    if (deadline_ && now >= *deadline_) time_is_up_ = true;
    if (poll_ && now >= next_poll_) {
      next_poll_ = now + kPollEvery;
      poll_();
    }
  }

  std::int64_t work_;
  std::int64_t steps_per_look_;
  std::int64_t spent_ = 0;
  std::int64_t since_look_ = kMostStepsPerLook;
  std::int64_t items_ = 0;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point next_poll_ = Clock::now() + kPollEvery;
  std::function<void()> poll_;
  const std::atomic<std::int64_t>* rival_work_ = nullptr;
  bool watched_ = false;
  bool time_is_up_ = false;
};

}  // namespace edgemem
