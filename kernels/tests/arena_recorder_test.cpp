// The recorder alone: no memory, no arena, and threads that are only numbers.
#include <cstdint>

#include "replay/recorder.h"
#include "tests/check.h"
#include "tests/registry.h"

using edgemem::Recorder;

TEST(a_recorder_keeps_what_it_is_told_in_that_order) {
  Recorder recorder;
  recorder.start(10);
  CHECK(recorder.events().empty());
  CHECK(recorder.note_request(100, 0, 7));
  CHECK(recorder.note_request(200, 1, 8));  // of another thread
  CHECK(recorder.note_free(0, 8));
  const auto& events = recorder.events();
  CHECK(events.size() == 3);
  CHECK(events[0].size == 100 && events[0].request == 0 && events[0].thread == 7);
  CHECK(events[1].size == 200 && events[1].request == 1 && events[1].thread == 8);
  CHECK(events[2].size == 0 && events[2].request == 0 && events[2].thread == 8);
  CHECK(0 <= events[0].time_ns && events[0].time_ns <= events[1].time_ns && events[1].time_ns <= events[2].time_ns);
}

TEST(a_full_recorder_says_so_and_keeps_what_it_has) {
  Recorder recorder;
  CHECK(!recorder.note_request(1, 0, 0));  // has not started: there is room for nothing
  recorder.start(2);
  CHECK(recorder.note_request(1, 0, 0) && recorder.note_request(2, 1, 0));
  CHECK(!recorder.note_free(0, 0) && !recorder.note_request(3, 2, 0));
  CHECK(recorder.events().size() == 2 && recorder.events()[1].size == 2);
}

TEST(a_recorder_starts_again_from_nothing) {
  Recorder recorder;
  recorder.start(5);
  CHECK(recorder.note_request(1, 0, 0));
  recorder.start(1);
  CHECK(recorder.events().empty());
  CHECK(recorder.note_request(9, 0, 3) && recorder.events()[0].size == 9);
  recorder.clear();
  CHECK(recorder.events().empty() && recorder.events().capacity() == 0);
}
