// How much may still be done: steps, counted the same on every machine, and seconds if the caller asked for a limit.
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

namespace edgemem::search {

struct Late {};  // thrown out of a loop that has no steps when time is up

class Budget {
 public:
  // Seconds count from now. A step over many pieces takes long, so that the clock is looked at more often.
  // Throws std::invalid_argument for seconds that are negative or no number.
  Budget(std::int64_t work, std::optional<double> seconds, std::size_t pieces = 0)
      : work_(work), look_(std::clamp<std::int64_t>(kPiecesPerLook / static_cast<std::int64_t>(pieces + 1), 1, kLook)) {
    if (!seconds) return;
    if (!(*seconds >= 0)) throw std::invalid_argument("the time limit is not a number of seconds from 0");
    if (*seconds >= kForever) return;
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
    watched_ = true;
  }

  // Called now and then, some twenty times a second; what it throws ends the search.
  void poll(std::function<void()> poll) {
    poll_ = std::move(poll);
    watched_ = watched_ || poll_;
  }
  // Ends as if time were up once more than `*work` steps are done.
  void yield_to(const std::atomic<std::int64_t>* work) {
    rival_ = work;
    watched_ = true;
  }

  // For what comes after the last look at the clock.
  void keep_back(std::chrono::nanoseconds time) {
    if (deadline_) *deadline_ -= std::chrono::duration_cast<Clock::duration>(time);
  }

  std::int64_t spent() const { return spent_; }
  bool out_of_work() const { return spent_ >= work_; }
  bool out_of_time() const { return late_; }
  bool timed() const { return deadline_.has_value(); }

  // Counts steps; false when there is nothing left for more.
  bool spend(std::int64_t steps) {
    spent_ += steps;
    since_look_ += steps;
    if (watched_ && since_look_ >= look_) look();
    return !late_ && !out_of_work();
  }

  // For loops that do no steps. Throws Late when time is up.
  void pass(std::int64_t items = 1) {
    items_ += items;
    if (watched_ && (late_ || items_ >= kItemsPerLook)) {
      look();
      if (late_) throw Late{};
    }
  }

  // std::sort, left half done by Late when time is up.
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
  static constexpr std::int64_t kLook = 512;               // steps between two looks at the clock
  static constexpr std::int64_t kPiecesPerLook = 1 << 16;  // steps times pieces
  static constexpr std::int64_t kItemsPerLook = 1 << 13;   // passed between two looks
  static constexpr std::chrono::milliseconds kPollEvery{50};

  void look() {
    since_look_ = 0;
    items_ = 0;
    if (rival_ && spent_ > rival_->load(std::memory_order_relaxed)) late_ = true;
    if (!deadline_ && !poll_) return;
    const Clock::time_point now = Clock::now();
    if (deadline_ && now >= *deadline_) late_ = true;
    if (poll_ && now >= next_poll_) {
      next_poll_ = now + kPollEvery;
      poll_();
    }
  }

  std::int64_t work_;
  std::int64_t look_;
  std::int64_t spent_ = 0;
  std::int64_t since_look_ = kLook;
  std::int64_t items_ = 0;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point next_poll_ = Clock::now() + kPollEvery;
  std::function<void()> poll_;
  const std::atomic<std::int64_t>* rival_ = nullptr;
  bool watched_ = false;
  bool late_ = false;
};

}  // namespace edgemem::search
