// What is alive while operators run in a sequence in which some of them run several times.
//
//     run                a    b    a'   c
//     first copy of a    w----r                 each run makes new copies of what its operator writes
//     second copy                  w----r       a reader reads the newest copy, or the one that its view was made of
//
// It is counted anew for each of many thousand sequences; tests/oracle/recompute.py counts the same literally.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/schedule/problem.h"

namespace edgemem::recompute {

using schedule::Id;
using schedule::Ids;
using schedule::Lists;
using schedule::Numbers;
using schedule::Problem;

// A problem, with what only operators that run several times ask for.
struct Program {
  // `sources`: for each operator and each class that it reads, in the order of `reads`: operators that are views
  // through which it reads the class, and `problem.count()` where it reads the class itself. `direct` and
  // `keeps_unread`: as in edgemem/schedule/problem.py. Throws std::invalid_argument for lists of other lengths or
  // numbers.
  Program(Problem problem, const std::vector<std::vector<Numbers>>& sources, const std::vector<Numbers>& direct,
          bool keeps_unread);

  // The position of a class in `problem.reads[op]`, which has it.
  std::size_t slot(Id op, Id c) const;

  Problem problem;
  bool keeps_unread;
  bool counts_inputs;                          // whether `direct` decides which copies are guarded
  Numbers first_slot;                          // of each operator: its first list in `sources`
  std::vector<std::vector<Id>> sources;        // of each slot; -1: the class itself
  std::vector<std::vector<Id>> direct;         // of each operator
  std::vector<std::vector<std::size_t>> over;  // of each operator: slots, in the order of preference
};

class Runs {
 public:
  // The program must outlive the object.
  explicit Runs(const Program& program) : program_(&program) {}

  // Counts a sequence. Returns false if an operator runs before one that it waits for, or never; nothing else may be
  // asked then.
  bool measure(std::span<const Id> runs);

  std::int64_t peak() const { return peak_; }
  // Bytes alive at each run.
  const Numbers& steps() const { return steps_; }

  struct Copy {
    Id of;       // class
    Id made;     // the run that made it; -1: alive before all runs
    Id last;     // the last run that reads it; -1: none does
    Id readers;  // how many runs read it
    Id inputs;   // how many inputs of runs it is, where that is counted
    char kept;   // to the end
    char taken;  // it lies in the memory of an input of its run
  };
  const std::vector<Copy>& copies() const { return copies_; }
  // The copies that a run reads, each once.
  Ids read(std::size_t run) const { return part(read_, first_read_[run], first_read_[run + 1]); }
  // Those of one slot of the run's operator.
  Ids read(std::size_t run, std::size_t slot) const;
  // The copies that a run made are numbered from here.
  Id first_copy(std::size_t run) const { return first_copy_[run]; }
  // How many runs read through a run, which is a view.
  Id viewed(std::size_t run) const { return viewed_[run]; }

 private:
  static Ids part(const std::vector<Id>& all, std::size_t begin, std::size_t end) {
    return {all.data() + begin, end - begin};
  }
  bool follow(std::span<const Id> runs);
  void read_all(std::size_t run, Id op);
  void count(std::span<const Id> runs);
  bool takes(std::size_t run, Id op) const;

  const Program* program_;
  Numbers steps_;
  std::int64_t peak_ = 0;
  std::vector<Copy> copies_;
  std::vector<Id> newest_;               // copy of each class; -1: none
  std::vector<Id> last_run_;             // of each operator
  std::vector<Id> read_;                 // copies, run by run and slot by slot
  std::vector<std::size_t> first_read_;  // of each run
  std::vector<std::size_t> slot_end_;    // of each slot of each run: where its copies end in read_
  std::vector<std::size_t> first_slot_;  // of each run: its first entry in slot_end_
  std::vector<Id> first_copy_;           // of each run
  std::vector<Id> viewed_;               // of each run
};

// The peak of a sequence. Throws std::invalid_argument for one in which an operator never runs, or runs before one that
// it waits for.
std::int64_t peak(const Program& program, std::span<const std::int64_t> runs);

// The same numbers, each that of an operator. Throws std::invalid_argument.
std::vector<Id> checked_runs(const Program& program, std::span<const std::int64_t> runs);

}  // namespace edgemem::recompute
