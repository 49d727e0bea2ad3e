// Copies are made again until nothing is above the budget.
//
//     bytes alive     _
//     budget ------ _| |_ -----------        at the highest step: of what is idle there, something is made again later
//                 _|     |_                  (chain.h), whatever lowers the bytes above the budget most for its cost
#pragma once

#include <cstddef>
#include <vector>

#include "planner/recompute/chain.h"
#include "planner/recompute/progress.h"

namespace edgemem::recompute {

class Repair {
 public:
  // `repeatable`: of each operator, whether it may run several times. All must outlive the object.
  Repair(Progress& progress, const std::vector<char>& repeatable);

  // Goes on from the current runs. Returns whether nothing is above the budget then. `noise`: prices are changed at
  // random, by a power of e up to it.
  bool run(double noise);

 private:
  struct Candidate {
    Id copy;
    std::size_t next;  // the run that reads it next; the number of runs if none does
    double price;      // what it may relieve for its cost
  };

  bool relieve(double noise);
  bool relieve(std::size_t step, double noise);
  void find_candidates(std::size_t step);
  void price_steps();
  void try_candidate(const Candidate& candidate, std::size_t step, double noise);

  Progress& progress_;
  const std::vector<char>& repeatable_;
  Chains chains_;
  std::vector<std::size_t> order_;  // steps above the budget, the highest first
  std::vector<double> over_;        // bytes above the budget, of all steps before each one
  std::vector<double> high_;        // how many steps before each one are above the budget
  std::vector<Candidate> candidates_;
  std::vector<char> tried_;  // of each copy
  std::vector<std::size_t> places_;
  std::vector<Id> last_;    // the chain before
  std::vector<Id> chosen_;  // runs
  double chosen_price_ = 0;
};

}  // namespace edgemem::recompute
