// The best order of up to 64 operators, over the sets of them that may have run.
//
//     {} --- {a} ---- {a,b} -- {a,b,c}       What comes after a set costs the same however it was reached (but for what
//       \--- {b} --/ \ {b,d} -- ...          took memory, which is remembered), so the cheapest way to it goes on
//       alone.
//
// A set is one machine word. Unlike the beam search of all operators (beam.h), which asks for the lowest peak, this one
// adds up what each step costs. So it tells apart orders of a part that all reach the same peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/budget.h"
#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// What a step with so many bytes alive costs. Few steps at `high` or above are best; then few bytes above `low`.
struct Price {
  std::int64_t most = 0;  // no step may have more
  std::int64_t high = 0;
  std::int64_t low = 0;
  std::int64_t for_high = 0;  // what a step at `high` costs extra

  std::int64_t of(std::int64_t bytes) const { return (bytes >= high ? for_high : 0) + (bytes > low ? bytes - low : 0); }
};

class SmallSearch {
 public:
  static constexpr Id kMost = 64;  // operators

  // The problem must outlive the object, and have no more than kMost operators.
  explicit SmallSearch(const Problem& problem);

  struct Found {
    std::vector<Id> order;  // empty if none was found
    std::int64_t cost = 0;
    bool is_best = false;  // no set was left out: there is none cheaper, or none at all
  };
  // The cheapest order found with so many sets of each size. Of equally cheap ones the seed decides.
  Found find(const Price& price, std::size_t width, std::uint64_t seed, Budget* budget);

 private:
  struct State {
    std::uint64_t done;   // operators
    std::uint64_t ready;  // operators
    std::uint64_t took;   // marked classes that took the memory of an input
    std::int64_t live;
    std::int64_t cost;
    std::uint32_t from;  // place among the sets with one operator less
    std::uint32_t op;
  };
  struct Step {
    std::int64_t during;  // bytes alive at it
    std::int64_t live;    // bytes alive after it
    std::uint64_t took;
    bool is_free;  // whatever comes later finds no more alive if it comes now
  };
  struct Place {
    std::uint32_t round;
    std::uint32_t state;
  };
  struct Origin {
    std::uint32_t from;
    std::uint8_t op;
  };

  Step step(const State& state, Id op) const;
  State& slot(std::uint64_t done, std::uint64_t took);
  void extend(const State& state, std::uint32_t number, Id op, const Step& step, std::int64_t cost);
  bool extend_all(const Price& price, Budget* budget);
  void keep_best(std::size_t width, std::uint64_t seed);
  void grow();

  const Problem& problem_;
  std::vector<std::uint64_t> before_;   // of each operator
  std::vector<std::uint64_t> after_;    // of each operator
  std::vector<std::uint64_t> readers_;  // of each class
  std::vector<std::uint64_t> marked_;   // of each class: its bit in State::took, or 0
  std::vector<char> spoils_;            // of each operator: running it may keep another one from taking memory
  std::vector<State> states_, next_;
  std::vector<Place> table_;
  std::uint32_t round_ = 0;
  std::vector<std::vector<Origin>> origins_;
};

}  // namespace edgemem::schedule
