#include "planner/schedule/run.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "planner/common/index.h"

namespace edgemem::schedule {
void Run::reset() {
  left_.resize(problem_->size.size());
  for (Id c = 0; c < problem_->classes(); ++c) left_[at(c)] = static_cast<Id>(problem_->readers[c].size());
  took_.assign(problem_->size.size(), 0);
  live_ = problem_->at_start;
  opening_ = problem_->opening;
}

// Whether the first result of an operator takes the memory of an input if it runs now.
bool Run::takes(Id op) const {
  for (const Id c : problem_->over[op]) {
    if (left_[at(c)] == 1) return problem_->guarded[at(c)] == 0 || took_[at(c)] != 0;
  }
  return false;
}

std::int64_t Run::during(Id op) const {
  std::int64_t results = problem_->born[at(op)] + problem_->own[at(op)];
  if (takes(op)) results -= problem_->size[at(problem_->writes[op].front())];
  const std::int64_t first = opening_ > 0 ? opening_ + problem_->entry[at(op)] : 0;
  return live_ + std::max({results, problem_->early[at(op)] + problem_->inside[at(op)], first});
}

void Run::run(Id op) {
  live_ += problem_->staying[at(op)];
  opening_ = 0;
  if (takes(op)) {
    const Id result = problem_->writes[op].front();
    took_[at(result)] = 1;
    // It goes with the memory that it took, which is released below.
    if (problem_->lingers[at(result)] != 0) live_ -= problem_->size[at(result)];
  }
  for (const Id c : problem_->reads[op]) {
    if (--left_[at(c)] == 0 && problem_->kept[at(c)] == 0) live_ -= problem_->size[at(c)];
  }
}

}  // namespace edgemem::schedule
