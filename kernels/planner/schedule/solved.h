// What searches for an order begin with, may use up, and give.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "planner/common/stop.h"
#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// What is known before a search.
struct Start {
  Numbers order;           // the best order so far; empty: none
  std::int64_t bound = 0;  // no order has a lower peak
};

struct Limits {
  std::int64_t work = 0;  // steps, counted the same on every machine
  std::uint64_t seed = 1;
  std::optional<double> seconds{};
  std::function<void()> poll{};  // called now and then; what it throws ends the search
};

struct Solved {
  Numbers order;
  std::int64_t bound = 0;
  Stop stopped = Stop::kWork;
  std::int64_t work = 0;
};

}  // namespace edgemem::schedule
