// Notes the events of a loop, in the order in which they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/edgemem_arena.h"

namespace edgemem {

// Where an event belongs.
struct EventPlace {
  int64_t thread = -1;
  int64_t stream = 0;
  int64_t section = -1;
};

// Requests have numbers that rise from record to record, so that a block tells whether the record that is on knows it.
// Not safe for several threads at once.
class LoopRecorder {
 public:
  // Begins an empty record of at most `most_events` events, and sets its clock and its iterations to 0.
  void start(int64_t most_events) noexcept;
  void stop() noexcept { is_on_ = false; }
  bool is_on() const noexcept { return is_on_; }

  void begin_iteration() noexcept { iteration_ = iterations_++; }
  void end_iteration() noexcept { iteration_ = -1; }

  // Whether the next event has room. Without, the record has a gap.
  bool make_room() noexcept;

  // After make_room() only: a request that was served; its number.
  int64_t note_request(int64_t bytes, const EventPlace& place) noexcept;

  // The number that note_request() will give next.
  int64_t next_request() const noexcept { return next_; }

  // Whether the record that is on has noted this request.
  bool knows(int64_t request) const noexcept { return is_on_ && request >= first_; }

  // After make_room() only: the free of a request that it knows.
  void note_free(int64_t request, const EventPlace& place) noexcept;

  const std::vector<em_loop_event>& events() const noexcept { return events_; }
  void clear() noexcept { std::vector<em_loop_event>().swap(events_); }

 private:
  void note(int64_t size, int64_t request, const EventPlace& place) noexcept;

  bool is_on_ = false;
  int64_t first_ = 0;  // request of this record
  int64_t next_ = 0;
  int64_t iteration_ = -1;
  int64_t iterations_ = 0;
  int64_t began_ns_ = 0;
  std::size_t most_events_ = 0;
  std::vector<em_loop_event> events_;
};

}  // namespace edgemem
