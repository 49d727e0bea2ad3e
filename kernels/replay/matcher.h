// What compares the events of a run with a plan: one class for each rule about the runs that a plan serves.
#pragma once

#include <cstdint>

namespace edgemem {

// The request of the plan that an event belongs to, or none.
struct Match {
  int64_t request = -1;  // its number in the plan; -1: the event is a deviation
  int64_t offset = -1;   // its place in the arena in bytes; -1: it is served by the heap
  int64_t bytes = 0;     // that the run asked for

  bool is_deviation() const { return request < 0; }
  bool has_place() const { return offset >= 0; }
};

// Sees the requests of one run, and the frees of what it placed in the arena. It works on numbers: it neither holds
// memory nor looks which thread calls, and the number of an event's thread is an argument that a rule may use or
// ignore.
//
// A rule must answer so that no two requests which are alive get places that overlap, whatever the run does. Not safe
// for several threads at once: whoever lets several threads into a run serialises their events.
class Matcher {
 public:
  // The next request, of `bytes`. A deviation is served by the heap; the run goes on.
  virtual Match match_request(int64_t bytes, int64_t thread) noexcept = 0;

  // The free of what lies at `offset` in the arena; a deviation if nothing was placed there.
  virtual Match match_free_at(int64_t offset, int64_t thread) noexcept = 0;

 protected:
  ~Matcher() = default;
};

}  // namespace edgemem
