// What compares the events of a run with a plan: one class for each rule about the orders that are allowed.
#pragma once

#include <cstdint>

namespace edgemem {

// The planned request that an event belongs to, or a deviation.
struct Match {
  int64_t request = -1;  // its number in the plan; -1: the event is a deviation
  int64_t offset = -1;   // its place in the arena in bytes; -1: it is served by the heap

  bool is_deviation() const { return request < 0; }
  bool has_place() const { return offset >= 0; }
};

// Sees the events of one run and tells what the plan says about each. It works on numbers: it neither holds memory nor
// looks which thread calls, and the number of an event's thread is an argument that a rule may use or ignore.
//
// A rule must answer so that no two requests which are alive get places that overlap. After a deviation, the caller
// serves the rest of the run from the heap and reports no more events. Not safe for several threads at once: whoever
// lets several threads into a run serialises their events.
class Matcher {
 public:
  // A request of `bytes`.
  virtual Match match_request(int64_t bytes, int64_t thread) noexcept = 0;

  // The free of what lies at `offset` in the arena. It is a deviation if no request is alive there.
  virtual Match match_free_at(int64_t offset, int64_t thread) noexcept = 0;

  // The free of request `request` of the plan, which the heap served.
  virtual Match match_free_of(int64_t request, int64_t thread) noexcept = 0;

  // How many events were as planned, and whether these are all that the plan has.
  virtual int64_t matched() const noexcept = 0;
  virtual bool is_complete() const noexcept = 0;

 protected:
  ~Matcher() = default;
};

}  // namespace edgemem
