// Notes the events of a run, in the order in which they are reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/edgemem_arena.h"

namespace edgemem {

// Knows neither memory nor which thread calls: the number of an event's thread is only data. Not safe for several
// threads at once.
class Recorder {
 public:
  // Forgets the last record and gives its room back.
  void clear() noexcept { std::vector<em_event>().swap(events_); }

  // Begins an empty record of at most `most_events` events, and sets its clock to 0.
  void start(std::size_t most_events) noexcept;

  // Notes that request `request` asked for `bytes`, or was freed. False if the record is full or memory is short: the
  // record has a gap from then on.
  bool note_request(int64_t bytes, int64_t request, int64_t thread) noexcept { return note(bytes, request, thread); }
  bool note_free(int64_t request, int64_t thread) noexcept { return note(0, request, thread); }

  const std::vector<em_event>& events() const noexcept { return events_; }

 private:
  bool note(int64_t size, int64_t request, int64_t thread) noexcept;

  std::size_t most_events_ = 0;
  int64_t began_ns_ = 0;
  std::vector<em_event> events_;
};

}  // namespace edgemem
