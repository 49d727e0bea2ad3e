// What is alive at an operator's step at least, in whatever order the operators run: a least cut.
//
// An order runs some set D of operators before operator o. D has all that must come before o, neither o nor anything
// that must come after it, and with an operator all those before that one. What is alive between D and the rest
// depends on D alone (see relaxed.h), as a sum over classes of memory. So the least of it over all such sets is the
// least cut of a network: the source's side is D, and a class costs its size if its writer is in D and a reader is not.
//
//              size of c           unlimited
//     writer ------------> class c ---------> each reader of c
//     operator -----------> each operator that must come before it     (unlimited)
//
// It is a maximum flow for each operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/schedule/max_flow.h"
#include "planner/schedule/problem.h"
#include "planner/schedule/run.h"

namespace edgemem::schedule {

class Cuts {
 public:
  // The problem is `relaxed`, and must outlive the object.
  explicit Cuts(const Problem& problem);

  // The least that is alive at the operator's step, over the orders in which no operator of `later` runs before it, and
  // all of `earlier` do; kUnlimited if there are none. At `enough` or more it may be any number from there to the
  // truth.
  std::int64_t least(Id op, std::int64_t enough = MaxFlow::kUnlimited, Ids later = {}, Ids earlier = {});
  // The set D of the last `least` that was less than enough: whether each operator is in it.
  const std::vector<char>& ran() const { return ran_; }

  // The least over some of those sets: operators of a topological sequence join one by one, first those that must come
  // before `op`; those that must come after it are left out.
  std::int64_t along(Id op, Ids sequence);
  // For the set of the marked operators, with all that must come before `op` and none that must come after it.
  std::int64_t beside(Id op, const std::vector<char>& marked, Ids sequence);

  // The operators that may run before this one or after it.
  std::vector<Id> unordered(Id op);

  // Steps done since the object was made: the same on every machine.
  std::int64_t work() const { return work_ + flow_.work(); }

 private:
  enum class Side : char { kFree, kRan, kWaits };

  bool split(Id op, Ids later = {}, Ids earlier = {});
  void build(Id taken);
  void pay(Id writer, std::int64_t bytes);
  void pay_for_class(Id writer, std::int64_t bytes, Ids readers, Id except);
  std::int64_t cut(Id taken, std::int64_t enough);
  std::int64_t with_results(Id op, std::int64_t enough);
  Side side(Id op) const { return side_[static_cast<std::size_t>(op)]; }
  MaxFlow::Node node(Id op) const { return node_[static_cast<std::size_t>(op)]; }

  const Problem& problem_;
  Run run_;
  Id op_ = 0;
  std::vector<Side> side_;
  std::vector<Id> stack_;
  std::vector<MaxFlow::Node> node_;  // of each free operator
  MaxFlow::Node nodes_ = 0;
  std::int64_t base_ = 0;                          // bytes alive for every set
  std::vector<std::int64_t> unless_ran_, if_ran_;  // of each node: bytes alive unless it ran, or if it did
  std::vector<char> ran_;
  MaxFlow flow_;
  std::int64_t work_ = 0;
};

}  // namespace edgemem::schedule
