// The matcher alone: numbers go in, places come out; no thread has a run and there is no arena.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "replay/in_order_matcher.h"
#include "replay/replay_plan.h"
#include "tests/check.h"
#include "tests/registry.h"

using edgemem::InOrderMatcher;
using edgemem::Match;
using edgemem::Matcher;

namespace {

constexpr int64_t kThread = 1;

struct Release {
  void operator()(em_plan* plan) const { plan->release(); }
};
using OwnedPlan = std::unique_ptr<em_plan, Release>;

OwnedPlan make_plan(const std::vector<int64_t>& events, const std::vector<int64_t>& offsets, int64_t size) {
  OwnedPlan plan(em_plan::create(events, offsets, size, 64));
  CHECK(plan != nullptr);
  return plan;
}

// Two requests that meet, one that takes the first one's place, and one on the heap.
OwnedPlan small() { return make_plan({100, 200, -1, 90, 40, -2, -4, -3}, {0, 128, 0, -1}, 328); }

bool is(const Match& match, int64_t request, int64_t offset) {
  return !match.is_deviation() && match.request == request && match.offset == offset &&
         match.has_place() == (offset >= 0);
}

}  // namespace

TEST(a_run_as_planned_gets_its_places_and_is_complete) {
  const OwnedPlan plan = small();
  InOrderMatcher in_order;
  Matcher& matcher = in_order;
  for (int k = 0; k < 2; ++k) {  // it starts again from the beginning
    in_order.start(*plan);
    CHECK(matcher.matched() == 0 && !matcher.is_complete());
    CHECK(is(matcher.match_request(100, kThread), 0, 0));
    CHECK(is(matcher.match_request(200, kThread + 1), 1, 128));  // the thread makes no difference
    CHECK(is(matcher.match_free_at(0, kThread), 0, 0));
    CHECK(is(matcher.match_request(90, kThread), 2, 0));
    CHECK(is(matcher.match_request(40, kThread), 3, -1));
    CHECK(is(matcher.match_free_at(128, kThread + 1), 1, 128));
    CHECK(is(matcher.match_free_of(3, kThread), 3, -1));
    CHECK(matcher.matched() == 7 && !matcher.is_complete());
    CHECK(is(matcher.match_free_at(0, kThread), 2, 0));
    CHECK(matcher.matched() == 8 && matcher.is_complete());
    CHECK(matcher.match_request(1, kThread).is_deviation());
    CHECK(matcher.match_free_at(0, kThread).is_deviation());
  }
}

TEST(any_other_event_is_a_deviation) {
  const OwnedPlan plan = small();
  InOrderMatcher matcher;
  matcher.start(*plan);
  CHECK(matcher.match_request(101, kThread).is_deviation());
  CHECK(matcher.match_request(200, kThread).is_deviation());  // the next but one
  CHECK(matcher.match_free_at(0, kThread).is_deviation());
  CHECK(matcher.match_free_of(0, kThread).is_deviation());
  CHECK(matcher.match_request(100, kThread).request == 0);
  CHECK(matcher.match_request(200, kThread).request == 1);
  CHECK(matcher.match_free_at(128, kThread).is_deviation());  // alive, but request 0 goes first
  CHECK(matcher.match_free_at(64, kThread).is_deviation());   // inside request 0
  CHECK(matcher.match_free_of(0, kThread).is_deviation());    // it lies in the arena
  CHECK(matcher.match_request(90, kThread).is_deviation());
  CHECK(matcher.matched() == 2);
}

TEST(a_size_is_never_taken_for_the_code_of_a_free) {
  const OwnedPlan plan = make_plan({100, -1}, {0}, 100);
  InOrderMatcher matcher;
  matcher.start(*plan);
  CHECK(matcher.match_request(100, kThread).request == 0);
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, INT64_MIN, INT64_MAX}) {
    CHECK(matcher.match_request(bytes, kThread).is_deviation());
  }
  for (const int64_t odd : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
    CHECK(matcher.match_free_at(odd, kThread).is_deviation() && matcher.match_free_of(odd, kThread).is_deviation());
  }
  CHECK(matcher.matched() == 1);
}

TEST(a_plan_of_nothing_is_complete_at_once) {
  const OwnedPlan plan = make_plan({}, {}, 0);
  InOrderMatcher matcher;
  matcher.start(*plan);
  CHECK(matcher.is_complete() && matcher.match_request(8, kThread).is_deviation());
}

// Random plans, against a list of what each event has to be: one event of each run is changed, and the matcher finds
// it, never earlier and never later.
TEST(the_first_changed_event_of_a_random_run_is_found) {
  std::mt19937_64 random(7);
  const auto below = [&random](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> events;
    std::vector<int64_t> offsets;
    std::vector<int64_t> alive;
    int64_t top = 0;
    const std::size_t length = 1 + below(30);
    while (events.size() < length) {
      if (!alive.empty() && below(2) == 0) {
        const std::size_t k = below(alive.size());
        events.push_back(-alive[k] - 1);
        alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(k));
      } else {
        const auto bytes = static_cast<int64_t>(1 + below(3));
        alive.push_back(static_cast<int64_t>(offsets.size()));
        events.push_back(bytes);
        offsets.push_back(below(4) == 0 ? -1 : top);
        top += 64;
      }
    }
    const OwnedPlan plan = make_plan(events, offsets, top);
    InOrderMatcher matcher;
    matcher.start(*plan);
    const std::size_t changed = below(length + 1);  // `length`: none is
    int64_t request = 0;
    for (std::size_t k = 0; k < length; ++k) {
      CHECK(matcher.matched() == static_cast<int64_t>(k));
      const int64_t wrong = k == changed ? 1 : 0;
      Match match;
      int64_t expected = request;
      if (events[k] > 0) {
        match = matcher.match_request(events[k] + wrong, kThread);
        ++request;
      } else {
        expected = -events[k] - 1;
        const int64_t offset = offsets[static_cast<std::size_t>(expected)];
        match = offset < 0 ? matcher.match_free_of(expected + wrong, kThread)
                           : matcher.match_free_at(offset + 64 * wrong, kThread);
      }
      if (wrong != 0) {
        CHECK(match.is_deviation());
        break;
      }
      CHECK(is(match, expected, offsets[static_cast<std::size_t>(expected)]));
    }
    CHECK(matcher.matched() == static_cast<int64_t>(changed) && matcher.is_complete() == (changed == length));
  }
}
