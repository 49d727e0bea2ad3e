// Plans for the tests of the matcher: made by hand, or at random and right by construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "replay/replay_plan.h"
#include "tests/check.h"

struct ReleasePlan {
  void operator()(em_plan* plan) const { plan->release(); }
};
using OwnedPlan = std::unique_ptr<em_plan, ReleasePlan>;

inline OwnedPlan make_owned(const std::vector<int64_t>& events, const std::vector<int64_t>& offsets, int64_t size) {
  OwnedPlan plan(em_plan::create(events, offsets, size, 64));
  CHECK(plan != nullptr);
  return plan;
}

// Numbers at random, from 0 to `end` - 1.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t end) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end)); }
  bool one_in(int64_t chances) { return below(chances) == 0; }

 private:
  std::mt19937_64 engine_;
};

struct RandomPlan {
  struct Request {
    int64_t offset = -1;
    int64_t bytes = 0;
    int64_t made = 0;           // number of its event
    int64_t freed = INT64_MAX;  // the same of its free, if there is one
  };
  std::vector<int64_t> events;
  std::vector<Request> requests;
  int64_t size = 0;

  OwnedPlan make() const {
    std::vector<int64_t> offsets;
    for (const Request& request : requests) {
      offsets.push_back(request.offset);
    }
    return make_owned(events, offsets, size);
  }
};

// Every request gets the first place, from a random one upwards, where nothing is alive.
inline RandomPlan random_plan(Dice& dice, int64_t length) {
  RandomPlan plan;
  std::vector<int64_t> alive;
  const int64_t frees = 1 + dice.below(3);  // of four events
  while (static_cast<int64_t>(plan.events.size()) < length) {
    const auto now = static_cast<int64_t>(plan.events.size());
    if (!alive.empty() && dice.below(4) < frees) {
      const auto k = static_cast<std::size_t>(dice.one_in(2) ? 0 : dice.below(static_cast<int64_t>(alive.size())));
      plan.events.push_back(-alive[k] - 1);
      plan.requests[static_cast<std::size_t>(alive[k])].freed = now;
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(k));
      continue;
    }
    RandomPlan::Request made{dice.one_in(8) ? -1 : 64 * dice.below(3), 1 + dice.below(200), now};
    for (bool moved = made.offset >= 0; moved;) {
      moved = false;
      for (const int64_t other : alive) {
        const RandomPlan::Request& there = plan.requests[static_cast<std::size_t>(other)];
        if (there.offset >= 0 && there.offset < made.offset + made.bytes && made.offset < there.offset + there.bytes) {
          made.offset = (there.offset + there.bytes + 63) / 64 * 64;
          moved = true;
        }
      }
    }
    plan.size = std::max(plan.size, made.offset + made.bytes);
    plan.events.push_back(made.bytes);
    alive.push_back(static_cast<int64_t>(plan.requests.size()));
    plan.requests.push_back(made);
  }
  return plan;
}
