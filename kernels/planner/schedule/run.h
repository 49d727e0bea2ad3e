// Runs operators one by one and counts what is alive: no more than an order's figures ask for.
//
// `Partial` does the same for searches, which also ask what could run next and what it would change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/schedule/problem.h"

namespace edgemem::schedule {

class Run {
 public:
  // The problem must outlive the object.
  explicit Run(const Problem& problem) : problem_(&problem) { reset(); }

  // Nothing has run.
  void reset();
  // Bytes alive now.
  std::int64_t live() const { return live_; }
  // Bytes alive at the first step only: 0 once an operator has run.
  std::int64_t opening() const { return opening_; }
  // Readers of a class that have not run.
  Id left(Id c) const { return left_[static_cast<std::size_t>(c)]; }
  // Bytes alive at the step of an operator if it runs now.
  std::int64_t during(Id op) const;
  // Runs an operator, which must not have run, after all those that it waits for.
  void run(Id op);
  // Whether a class took the memory of an input of its writer, which has run.
  bool took(Id c) const { return took_[static_cast<std::size_t>(c)] != 0; }

 private:
  bool takes(Id op) const;

  const Problem* problem_;
  std::vector<Id> left_;    // readers of each class that have not run
  std::vector<char> took_;  // of each class
  std::int64_t live_ = 0;
  std::int64_t opening_ = 0;
};

}  // namespace edgemem::schedule
