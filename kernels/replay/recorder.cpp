#include "replay/recorder.h"

#include <exception>

#include "replay/clock.h"

namespace edgemem {

void Recorder::start(std::size_t most_events) noexcept {
  clear();
  most_events_ = most_events;
  began_ns_ = now_ns();
}

bool Recorder::note(int64_t size, int64_t request, int64_t thread) noexcept {
  if (events_.size() >= most_events_) {
    return false;
  }
  try {
    events_.push_back({size, request, now_ns() - began_ns_, thread});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace edgemem
