// The matcher against a model that looks at every pair of requests: a place is given if and only if it fits.
#include <cstdint>
#include <vector>

#include "replay/slot_matcher.h"
#include "tests/arena_plans.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

using edgemem::Match;
using edgemem::SlotMatcher;

namespace {

// One run of a plan: what is alive in the arena, and the answers of the matcher to every event.
class Run {
 public:
  Run(const RandomPlan& plan, SlotMatcher& matcher)
      : plan_(plan), matcher_(matcher), used_(static_cast<std::size_t>(plan.size), false) {}

  int64_t made() const { return made_; }
  const std::vector<int64_t>& alive() const { return alive_; }
  int64_t misses() const { return misses_; }
  int64_t late_misses() const { return late_misses_; }

  void request(int64_t bytes) {
    const int64_t number = made_++;
    const Match match = matcher_.match_request(bytes, 1);
    if (number >= static_cast<int64_t>(plan_.requests.size())) {
      CHECK(match.is_deviation());
      return;
    }
    asked_.push_back(bytes);
    const RandomPlan::Request& planned = plan_.requests[static_cast<std::size_t>(number)];
    const bool is_small = bytes > 0 && bytes <= planned.bytes;
    if (planned.offset < 0) {
      CHECK(match.is_deviation() != is_small && !match.has_place());
      return;
    }
    const bool is_free = !meets_late(planned);
    misses_ += is_small && is_free ? 0 : 1;
    late_misses_ += is_free ? 0 : 1;
    CHECK(match.has_place() == (is_small && is_free));
    CHECK(match.is_deviation() != match.has_place());
    if (match.has_place()) {
      CHECK(match.request == number && match.offset == planned.offset && match.bytes == bytes);
      mark(planned.offset, bytes, true);
      alive_.push_back(number);
    }
  }

  // `k` is an index of alive().
  void free(std::size_t k) {
    const int64_t number = alive_[k];
    const int64_t offset = plan_.requests[static_cast<std::size_t>(number)].offset;
    const Match match = matcher_.match_free_at(offset, 1);
    const int64_t bytes = asked_[static_cast<std::size_t>(number)];
    CHECK(match.request == number && match.offset == offset && match.bytes == bytes);
    mark(offset, bytes, false);
    alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  // A free where nothing begins changes nothing.
  void free_nothing(int64_t offset) {
    for (const int64_t number : alive_) {
      if (plan_.requests[static_cast<std::size_t>(number)].offset == offset) {
        return;
      }
    }
    CHECK(matcher_.match_free_at(offset, 1).is_deviation());
  }

 private:
  // Whether something is alive there that the plan frees before it makes this request, or too much is.
  bool meets_late(const RandomPlan::Request& wanted) const {
    int64_t late = 0;
    bool meets = false;
    for (const int64_t number : alive_) {
      const RandomPlan::Request& there = plan_.requests[static_cast<std::size_t>(number)];
      if (there.freed < wanted.made) {
        ++late;
        meets |= there.offset < wanted.offset + wanted.bytes && wanted.offset < there.offset + there.bytes;
      }
    }
    return meets || late > 256;
  }

  // Notes the bytes as used, or as free again: no two requests that are alive have a byte in common.
  void mark(int64_t offset, int64_t bytes, bool used) {
    for (int64_t k = offset; k < offset + bytes; ++k) {
      CHECK(used_[static_cast<std::size_t>(k)] != used);
      used_[static_cast<std::size_t>(k)] = used;
    }
  }

  const RandomPlan& plan_;
  SlotMatcher& matcher_;
  std::vector<bool> used_;      // by byte of the arena
  std::vector<int64_t> asked_;  // bytes, by request
  std::vector<int64_t> alive_;  // requests in the arena, oldest first
  int64_t made_ = 0;
  int64_t misses_ = 0;
  int64_t late_misses_ = 0;
};

// How often a run does something else than the plan: once in so many events.
struct Habits {
  int64_t larger;
  int64_t late;
  int64_t early;
  bool smaller;
};

int64_t size_of(Dice& dice, int64_t planned, const Habits& habits) {
  if (dice.one_in(habits.larger)) {
    constexpr int64_t kOdd[] = {0, -1, INT64_MIN, INT64_MAX};
    return dice.one_in(5) ? kOdd[dice.below(4)] : planned + 1 + dice.below(100);
  }
  return habits.smaller ? 1 + dice.below(planned) : planned;
}

void follow(const RandomPlan& plan, Dice& dice, const Habits& habits, Run& run) {
  const int64_t end = dice.one_in(4) ? dice.below(static_cast<int64_t>(plan.events.size())) : INT64_MAX;
  for (int64_t k = 0; k < static_cast<int64_t>(plan.events.size()) && k < end; ++k) {
    const int64_t event = plan.events[static_cast<std::size_t>(k)];
    if (event > 0) {
      run.request(size_of(dice, event, habits));
    } else if (!dice.one_in(habits.late)) {  // else it is freed below, or never, or where the run does not see it
      for (std::size_t j = 0; j < run.alive().size(); ++j) {
        if (run.alive()[j] == -event - 1) {
          run.free(j);
          break;
        }
      }
    }
    if (!run.alive().empty() && dice.one_in(habits.early)) {
      run.free(static_cast<std::size_t>(dice.below(static_cast<int64_t>(run.alive().size()))));
    }
    run.free_nothing(dice.below(plan.size + 2) - 1);
  }
}

}  // namespace

TEST(a_request_gets_its_place_if_and_only_if_it_fits) {
  Dice dice(20);
  SlotMatcher matcher;  // one for all, as a context has
  int64_t late_misses = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    const RandomPlan plan = random_plan(dice, 1 + dice.below(60));
    const OwnedPlan made = plan.make();
    for (int k = 0; k < 4; ++k) {
      constexpr int64_t kNever = INT64_MAX;
      const auto rarely = [&dice] { return dice.one_in(2) ? kNever : 2 + dice.below(20); };
      const Habits habits{rarely(), rarely(), rarely(), dice.one_in(2)};
      CHECK(matcher.start(*made));
      Run run(plan, matcher);
      follow(plan, dice, habits, run);
      late_misses += run.late_misses();
      if (habits.larger == kNever && habits.late == kNever) {
        CHECK(run.misses() == 0);  // smaller sizes and early frees are no deviation
      }
      for (int64_t more = dice.below(3); more > 0; --more) {
        run.request(1 + dice.below(100));  // beyond the plan, or of another size than it has there
      }
    }
  }
  CHECK(late_misses > 0);
}

// Long plans, of which very much is freed late: more than the matcher compares.
TEST(a_place_is_not_shared_however_many_blocks_are_late) {
  Dice dice(21);
  for (int round = 0; round < 6; ++round) {
    const RandomPlan plan = random_plan(dice, 3000);
    const OwnedPlan made = plan.make();
    SlotMatcher matcher;
    CHECK(matcher.start(*made));
    Run run(plan, matcher);
    follow(plan, dice, {INT64_MAX, 1, round < 3 ? INT64_MAX : 3, true}, run);
  }
}
