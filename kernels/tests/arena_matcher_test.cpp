// The matcher alone: numbers go in, places come out; no thread has a run and there is no arena.
#include <cstdint>
#include <vector>

#include "replay/slot_matcher.h"
#include "tests/arena_plans.h"
#include "tests/check.h"
#include "tests/registry.h"

using edgemem::Match;
using edgemem::Matcher;
using edgemem::SlotMatcher;

namespace {

constexpr int64_t kThread = 1;

// Two requests that meet, one that takes the first one's place, and one on the heap.
OwnedPlan small() { return make_owned({100, 200, -1, 90, 40, -2, -4, -3}, {0, 128, 0, -1}, 328); }

bool is(const Match& match, int64_t request, int64_t offset, int64_t bytes) {
  return !match.is_deviation() && match.request == request && match.offset == offset && match.bytes == bytes &&
         match.has_place() == (offset >= 0);
}

}  // namespace

TEST(a_run_as_planned_gets_its_places) {
  const OwnedPlan plan = small();
  SlotMatcher slots;
  Matcher& matcher = slots;
  for (int k = 0; k < 2; ++k) {  // it starts again from the beginning
    CHECK(slots.start(*plan));
    CHECK(is(matcher.match_request(100, kThread), 0, 0, 100));
    CHECK(is(matcher.match_request(200, kThread + 1), 1, 128, 200));  // the thread makes no difference
    CHECK(is(matcher.match_free_at(0, kThread), 0, 0, 100));
    CHECK(is(matcher.match_request(90, kThread), 2, 0, 90));
    CHECK(is(matcher.match_request(40, kThread), 3, -1, 40));
    CHECK(is(matcher.match_free_at(128, kThread + 1), 1, 128, 200));
    CHECK(is(matcher.match_free_at(0, kThread), 2, 0, 90));
    CHECK(matcher.match_request(1, kThread).is_deviation());
    CHECK(matcher.match_free_at(0, kThread).is_deviation());
  }
}

TEST(a_matcher_forgets_the_run_before) {
  const OwnedPlan plan = small();
  const OwnedPlan other = make_owned({64, 64}, {64, 0}, 128);
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(matcher.match_request(100, kThread).has_place() && matcher.match_request(200, kThread).has_place());
  CHECK(matcher.match_request(90, kThread).is_deviation());  // request 0 is late
  CHECK(matcher.start(*other));
  CHECK(matcher.match_free_at(0, kThread).is_deviation() && matcher.match_free_at(64, kThread).is_deviation());
  CHECK(is(matcher.match_request(64, kThread), 0, 64, 64) && is(matcher.match_request(3, kThread), 1, 0, 3));
  CHECK(is(matcher.match_free_at(0, kThread), 1, 0, 3) && is(matcher.match_free_at(64, kThread), 0, 64, 64));
}

TEST(a_larger_request_has_no_place_and_leaves_the_others_theirs) {
  const OwnedPlan plan = small();
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(matcher.match_request(101, kThread).is_deviation());
  CHECK(matcher.match_free_at(0, kThread).is_deviation());  // it is on the heap
  CHECK(is(matcher.match_request(1, kThread), 1, 128, 1));
  CHECK(is(matcher.match_request(90, kThread), 2, 0, 90));   // nothing to be freed first
  CHECK(matcher.match_request(41, kThread).is_deviation());  // larger than planned, on the heap too
  CHECK(matcher.match_free_at(64, kThread).is_deviation());  // inside request 2
  CHECK(is(matcher.match_free_at(0, kThread), 2, 0, 90));    // before request 1, which the plan frees first
  CHECK(is(matcher.match_free_at(128, kThread), 1, 128, 1));
}

TEST(a_place_that_is_still_taken_is_not_given_again_until_it_is_freed) {
  // Three requests of 64 bytes, one after the other, in the place of 128 bytes that the first one had.
  const OwnedPlan plan = make_owned({128, -1, 64, -2, 64, -3, 64, 64}, {0, 0, 64, 0, 128}, 192);
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(is(matcher.match_request(10, kThread), 0, 0, 10));
  CHECK(matcher.match_request(64, kThread).is_deviation());
  CHECK(matcher.match_request(64, kThread).is_deviation());  // as planned the first one reaches there
  CHECK(is(matcher.match_free_at(0, kThread), 0, 0, 10));
  CHECK(is(matcher.match_request(64, kThread), 3, 0, 64));
  CHECK(is(matcher.match_request(64, kThread), 4, 128, 64));
}

TEST(an_early_free_is_known_when_the_plan_frees_it) {
  const OwnedPlan plan = make_owned({64, 64, -1, -2, 64, -3, 64}, {0, 64, 64, 64}, 128);
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(is(matcher.match_request(64, kThread), 0, 0, 64));
  CHECK(is(matcher.match_free_at(0, kThread), 0, 0, 64));
  CHECK(matcher.match_free_at(0, kThread).is_deviation());  // once
  CHECK(is(matcher.match_request(64, kThread), 1, 64, 64));
  CHECK(is(matcher.match_free_at(64, kThread), 1, 64, 64));
  CHECK(is(matcher.match_request(64, kThread), 2, 64, 64));
  CHECK(matcher.match_request(64, kThread).is_deviation());  // request 2 is alive
  CHECK(is(matcher.match_free_at(64, kThread), 2, 64, 64));
  CHECK(matcher.match_free_at(64, kThread).is_deviation());
}

TEST(a_size_is_never_taken_for_the_code_of_a_free) {
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, INT64_MIN, INT64_MAX}) {
    const OwnedPlan plan = make_owned({100, -1}, {0}, 100);
    SlotMatcher matcher;
    CHECK(matcher.start(*plan));
    CHECK(matcher.match_request(bytes, kThread).is_deviation());
    CHECK(matcher.match_free_at(0, kThread).is_deviation());
  }
  const OwnedPlan plan = small();
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(matcher.match_request(100, kThread).request == 0);
  for (const int64_t odd : {int64_t{-1}, int64_t{1}, int64_t{128}, INT64_MIN, INT64_MAX}) {
    CHECK(matcher.match_free_at(odd, kThread).is_deviation());
  }
}

TEST(a_plan_of_nothing_serves_nothing) {
  const OwnedPlan plan = make_owned({}, {}, 0);
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  CHECK(matcher.match_request(8, kThread).is_deviation() && matcher.match_free_at(0, kThread).is_deviation());
}

// Beyond 256 blocks that the plan has freed and the run has not, no more places are given.
TEST(very_many_late_frees_send_requests_to_the_heap_until_some_come) {
  constexpr int64_t kLate = 300;
  std::vector<int64_t> events;
  std::vector<int64_t> offsets;
  for (int64_t k = 0; k < kLate; ++k) {
    events.push_back(64);
    offsets.push_back(64 * k);
  }
  for (int64_t k = 0; k < kLate; ++k) {
    events.push_back(-k - 1);
  }
  for (int64_t k = 0; k < 4; ++k) {
    events.push_back(64);
    offsets.push_back(64 * (kLate + k));  // where nothing lay
  }
  const OwnedPlan plan = make_owned(events, offsets, 64 * (kLate + 4));
  SlotMatcher matcher;
  CHECK(matcher.start(*plan));
  for (int64_t k = 0; k < kLate; ++k) {
    CHECK(is(matcher.match_request(64, kThread), k, 64 * k, 64));
  }
  CHECK(matcher.match_request(64, kThread).is_deviation());
  for (int64_t k = 0; k < kLate - 257; ++k) {
    CHECK(is(matcher.match_free_at(64 * k, kThread), k, 64 * k, 64));
  }
  CHECK(matcher.match_request(64, kThread).is_deviation());
  CHECK(matcher.match_free_at(64 * 200, kThread).request == 200);
  CHECK(is(matcher.match_request(64, kThread), kLate + 2, 64 * (kLate + 2), 64));
  for (int64_t k = kLate - 257; k < kLate; ++k) {
    CHECK(matcher.match_free_at(64 * k, kThread).is_deviation() == (k == 200));
  }
  CHECK(is(matcher.match_request(64, kThread), kLate + 3, 64 * (kLate + 3), 64));
}
