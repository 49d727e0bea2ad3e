#include "replay/loop_recorder.h"

#include <algorithm>
#include <exception>

#include "replay/clock.h"

namespace edgemem {

namespace {

constexpr std::size_t kFirstRoom = 4096;  // events

}  // namespace

void LoopRecorder::start(int64_t most_events) noexcept {
  clear();
  is_on_ = true;
  first_ = next_;
  iteration_ = -1;
  iterations_ = 0;
  most_events_ = static_cast<std::size_t>(std::max<int64_t>(most_events, 0));
  began_ns_ = now_ns();
}

bool LoopRecorder::make_room() noexcept {
  if (events_.size() >= most_events_) {
    return false;
  }
  if (events_.size() < events_.capacity()) {
    return true;
  }
  try {
    events_.reserve(std::min(std::max(2 * events_.size(), kFirstRoom), most_events_));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

int64_t LoopRecorder::note_request(int64_t bytes, const EventPlace& place) noexcept {
  note(bytes, next_, place);
  return next_++;
}

void LoopRecorder::note_free(int64_t request, const EventPlace& place) noexcept { note(0, request, place); }

void LoopRecorder::note(int64_t size, int64_t request, const EventPlace& place) noexcept {
  events_.push_back(
      {size, request - first_, now_ns() - began_ns_, place.thread, place.stream, place.section, iteration_});
}

}  // namespace edgemem
