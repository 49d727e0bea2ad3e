// Looks ahead along chains of operators, of which each waits for the one before it.
//
//     bytes alive  |     _
//                  |   _/ \_          Whoever goes over the hill is no worse off: the chain may run at once. Stopping
//                  |  /     \         half way up never helps, since all of its stops are higher than its end.
//        at first  |-/-------\_____
//                  |   a  b   c
//
// Why nothing better is lost: bytes alive are submodular over sets of operators that have run, so what comes later
// finds no more alive after the chain than it found before it, or half way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/schedule/partial.h"
#include "planner/schedule/problem.h"

namespace edgemem::schedule {

class Chains {
 public:
  explicit Chains(const Problem& problem) : problem_(&problem), fewer_(problem.size.size(), 0) {}

  // The shortest chain from ready operator k on that leaves no more alive, and no more than `room` more while it runs;
  // empty if there is none. Valid until the next call.
  const std::vector<Id>& find(const Partial& partial, Id k, std::int64_t room);

 private:
  // Follows the operator that leaves the fewest bytes alive of those that wait for the chain alone.
  Id next(const Partial& partial, std::int64_t room);
  Effect effect(const Partial& partial, Id k) const;
  void add(Id k);

  static constexpr std::size_t kLongest = 24;

  const Problem* problem_;
  std::vector<Id> chain_;
  std::vector<Id> fewer_;  // of each class: its readers in the chain
  std::int64_t change_ = 0;
};

}  // namespace edgemem::schedule
