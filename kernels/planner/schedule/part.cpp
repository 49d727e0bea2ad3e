#include "planner/schedule/part.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "planner/common/index.h"

namespace edgemem::schedule {
namespace {

class Numbering {
 public:
  std::int64_t operator[](Id known) {
    return number_.try_emplace(known, static_cast<std::int64_t>(number_.size())).first->second;
  }
  bool has(Id known) const { return number_.contains(known); }
  std::size_t size() const { return number_.size(); }

 private:
  std::unordered_map<Id, std::int64_t> number_;
};

}  // namespace

Problem part_of(const Problem& problem, Ids ops, const Run& run) {
  Fields made;
  Numbering operators;
  Numbering classes;
  for (const Id k : ops) (void)operators[k];
  std::int64_t rest = run.live();
  std::vector<Id> inside;  // readers of each class of the part that are in it
  const auto number = [&](Id c) {
    const std::int64_t n = classes[c];
    if (classes.size() == made.size.size()) return n;
    made.size.push_back(problem.size[at(c)]);
    const Id w = problem.writer[at(c)];
    const bool is_written = w >= 0 && operators.has(w);
    if (!is_written) {
      made.start.push_back(n);
      rest -= problem.size[at(c)];
    }
    const Ids readers = problem.readers[c];
    const auto is_inside = [&](Id r) { return operators.has(r); };
    inside.push_back(static_cast<Id>(std::count_if(readers.begin(), readers.end(), is_inside)));
    if (problem.kept[at(c)] != 0 || run.left(c) > inside.back()) made.kept.push_back(n);
    if (problem.lingers[at(c)] != 0) made.lingers.push_back(n);
    if (problem.guarded[at(c)] != 0 && (is_written || !run.took(c))) made.guarded.push_back(n);
    return n;
  };
  for (const Id k : ops) {
    Numbers before, reads, writes, over;
    for (const Id first : problem.before[k]) {
      if (operators.has(first)) before.push_back(operators[first]);
    }
    for (const Id c : problem.reads[k]) reads.push_back(number(c));
    for (const Id c : problem.writes[k]) writes.push_back(number(c));
    for (const Id c : problem.over[k]) {
      const std::int64_t n = number(c);
      if (run.left(c) == inside[static_cast<std::size_t>(n)]) over.push_back(n);  // others will still need it
    }
    made.before.push_back(before);
    made.reads.push_back(reads);
    made.writes.push_back(writes);
    made.over.push_back(over);
    made.own.push_back(problem.own[at(k)]);
    made.inside.push_back(problem.inside[at(k)]);
    made.early.push_back(problem.early[at(k)]);
    made.leaves.push_back(problem.leaves[at(k)]);
    made.entry.push_back(problem.entry[at(k)]);
  }
  if (rest > 0) {
    const auto n = static_cast<std::int64_t>(made.size.size());
    made.size.push_back(rest);
    made.start.push_back(n);
    made.kept.push_back(n);
  }
  made.opening = run.opening();
  return Problem(made);
}

}  // namespace edgemem::schedule
