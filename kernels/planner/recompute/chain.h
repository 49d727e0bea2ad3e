// Which operators must run again so that a copy need not be alive over a step.
//
//     run           a   b   c   d                        a's result is idle at c, where too much is alive
//     copy of a     w---r-------r
//
//     run           a   b   c   a'  d                    a' makes it again for d; what a' reads must be alive there, or
//     copies of a   w---r       w---r                    is made again with it
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/recompute/runs.h"

namespace edgemem::recompute {

// What is done about an input that is dead where it is needed again.
enum class Inputs : char {
  kKeep,   // it stays alive until there
  kSpare,  // it stays alive unless it would be so over the step that is to be relieved
  kRemake  // its operator runs again too, if it may
};

class Chains {
 public:
  // `repeatable`: of each operator, whether it may run several times. All must outlive the object.
  Chains(const Program& program, const std::vector<char>& repeatable);

  // Looks at a sequence and what was measured of it, until the next call.
  void look_at(std::span<const Id> runs, const Runs& measured);

  // The runs that read a copy, ascending.
  Ids uses(Id copy) const;

  // The operators, in the order in which they run, that make a copy again at `place` (before the run that is there now)
  // for all its readers after `step`. Empty if one of them may not run again, or if they are too many.
  std::span<const Id> chain(Id copy, std::size_t step, std::size_t place, Inputs inputs);

 private:
  bool add(Id op);
  bool add_reading(Id op);
  bool is_there(Id copy) const;

  const Program& program_;
  const std::vector<char>& repeatable_;
  std::vector<Id> writer_;  // of each class; -1: none
  std::span<const Id> runs_;
  const Runs* measured_ = nullptr;
  std::vector<Id> uses_;
  std::vector<std::size_t> first_use_;    // of each copy
  std::vector<Id> rank_;                  // of each operator: its first run
  std::vector<std::vector<Id>> made_;     // of each class: its copies, in time
  std::vector<std::vector<Id>> runs_of_;  // of each operator, in time

  // Of the chain that is being made.
  std::size_t step_ = 0;
  std::size_t place_ = 0;
  Inputs inputs_ = Inputs::kKeep;
  std::vector<Id> chain_;
  std::vector<char> in_chain_;  // of each operator
};

}  // namespace edgemem::recompute
