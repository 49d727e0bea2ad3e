#include "planner/recompute/runs.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "planner/common/index.h"

namespace edgemem::recompute {
namespace {

Id checked(std::int64_t number, Id limit, const char* field) {
  if (number < 0 || number >= limit) {
    throw std::invalid_argument(std::string(field) + ": there is no number " + std::to_string(number));
  }
  return static_cast<Id>(number);
}

}  // namespace

Program::Program(Problem given, const std::vector<std::vector<Numbers>>& views, const std::vector<Numbers>& inputs,
                 bool unread)
    : problem(std::move(given)), keeps_unread(unread), counts_inputs(!inputs.empty()) {
  const Id count = problem.count();
  if (views.size() != at(count) || (counts_inputs && inputs.size() != at(count))) {
    throw std::invalid_argument("sources: there is not one list for each operator");
  }
  direct.resize(at(count));
  for (Id k = 0; k < count; ++k) {
    const Ids reads = problem.reads[k];
    if (views[at(k)].size() != reads.size()) {
      throw std::invalid_argument("sources: there is not one list for each class that an operator reads");
    }
    first_slot.push_back(static_cast<std::int64_t>(sources.size()));
    for (std::size_t i = 0; i < reads.size(); ++i) {
      std::vector<Id>& found = sources.emplace_back();
      for (const std::int64_t view : views[at(k)][i]) {
        const Id source = checked(view, count + 1, "sources");
        if (source < count) (void)slot(source, reads[i]);
        found.push_back(source < count ? source : -1);
      }
    }
    std::vector<std::size_t>& taken = over.emplace_back();
    for (const Id c : problem.over[k]) taken.push_back(slot(k, c));
    if (!counts_inputs) continue;
    for (const std::int64_t c : inputs[at(k)]) {
      const Id read = checked(c, problem.classes(), "direct");
      const std::vector<Id>& from = sources[static_cast<std::size_t>(first_slot.back()) + slot(k, read)];
      if (std::find(from.begin(), from.end(), -1) != from.end()) direct[at(k)].push_back(read);
    }
  }
}

std::size_t Program::slot(Id op, Id c) const {
  const Ids reads = problem.reads[op];
  const auto found = std::find(reads.begin(), reads.end(), c);
  if (found == reads.end()) throw std::invalid_argument("sources: a view does not read the class");
  return static_cast<std::size_t>(found - reads.begin());
}

Ids Runs::read(std::size_t run, std::size_t slot) const {
  const std::size_t number = first_slot_[run] + slot;
  return part(read_, slot == 0 ? first_read_[run] : slot_end_[number - 1], slot_end_[number]);
}

bool Runs::measure(std::span<const Id> runs) {
  if (!follow(runs)) return false;
  count(runs);
  return true;
}

// Finds which copies each run reads.
bool Runs::follow(std::span<const Id> runs) {
  const Problem& problem = program_->problem;
  copies_.clear();
  read_.clear();
  first_read_.clear();
  slot_end_.clear();
  first_slot_.clear();
  first_copy_.clear();
  viewed_.assign(runs.size(), 0);
  newest_.assign(at(problem.classes()), -1);
  last_run_.assign(at(problem.count()), -1);
  for (Id c = 0; c < problem.classes(); ++c) {
    if (problem.present[at(c)] == 0) continue;
    newest_[at(c)] = static_cast<Id>(copies_.size());
    copies_.push_back({c, -1, -1, 0, 0, 0, 0});
  }
  Id ran = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const Id op = runs[run];
    for (const Id b : problem.before[op]) {
      if (last_run_[at(b)] < 0) return false;
    }
    for (const Id c : program_->direct[at(op)]) ++copies_[at(newest_[at(c)])].inputs;
    first_copy_.push_back(static_cast<Id>(copies_.size()));
    for (const Id c : problem.writes[op]) {
      // Its own results are read only by its bodies, so what it reads of others is the same before and after.
      newest_[at(c)] = static_cast<Id>(copies_.size());
      copies_.push_back({c, static_cast<Id>(run), -1, 0, 0, 0, 0});
    }
    read_all(run, op);
    ran += last_run_[at(op)] < 0 ? 1 : 0;
    last_run_[at(op)] = static_cast<Id>(run);
  }
  first_read_.push_back(read_.size());
  for (Id c = 0; c < problem.classes(); ++c) {
    if (problem.kept[at(c)] != 0 && newest_[at(c)] >= 0) copies_[at(newest_[at(c)])].kept = 1;
  }
  return ran == problem.count();
}

void Runs::read_all(std::size_t run, Id op) {
  const Ids reads = program_->problem.reads[op];
  const auto first = static_cast<std::size_t>(program_->first_slot[at(op)]);
  first_read_.push_back(read_.size());
  first_slot_.push_back(slot_end_.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const std::size_t begin = read_.size();
    const auto add = [&](Id copy) {
      if (std::find(read_.begin() + static_cast<std::ptrdiff_t>(begin), read_.end(), copy) != read_.end()) return;
      read_.push_back(copy);
      Copy& found = copies_[at(copy)];
      found.last = static_cast<Id>(run);
      ++found.readers;
    };
    for (const Id source : program_->sources[first + i]) {
      if (source < 0) {
        add(newest_[at(reads[i])]);
        continue;
      }
      const auto view = at(last_run_[at(source)]);
      ++viewed_[view];
      const std::size_t slot = program_->slot(source, reads[i]);
      const std::size_t number = first_slot_[view] + slot;
      const std::size_t from = slot == 0 ? first_read_[view] : slot_end_[number - 1];
      for (std::size_t n = from; n < slot_end_[number]; ++n) add(read_[n]);
    }
    slot_end_.push_back(read_.size());
  }
}

// Whether the first result of a run takes the memory of an input.
bool Runs::takes(std::size_t run, Id op) const {
  for (const std::size_t slot : program_->over[at(op)]) {
    const Ids found = read(run, slot);
    if (found.size() != 1) continue;
    const Copy& copy = copies_[at(found.front())];
    if (copy.last != static_cast<Id>(run)) continue;
    const bool guarded = program_->counts_inputs ? copy.inputs > 1 : program_->problem.guarded[at(copy.of)] != 0;
    return !guarded || copy.taken != 0;
  }
  return false;
}

// Adds up what is alive at each run, as schedule::Run does.
void Runs::count(std::span<const Id> runs) {
  const Problem& problem = program_->problem;
  steps_.clear();
  std::int64_t live = problem.at_start;
  peak_ = live + (runs.empty() ? problem.opening : 0);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const Id op = runs[run];
    const Ids writes = problem.writes[op];
    const bool taken = takes(run, op);
    std::int64_t results = problem.born[at(op)] + problem.own[at(op)];
    if (taken) results -= problem.size[at(writes.front())];
    const std::int64_t first = run == 0 && problem.opening > 0 ? problem.opening + problem.entry[at(op)] : 0;
    steps_.push_back(live + std::max({results, problem.early[at(op)] + problem.inside[at(op)], first}));
    peak_ = std::max(peak_, steps_.back());
    live += problem.leaves[at(op)];
    for (std::size_t i = 0; i < writes.size(); ++i) {
      Copy& copy = copies_[at(first_copy_[run]) + i];
      const bool lingers = copy.last < 0 && (program_->keeps_unread || problem.lingers[at(copy.of)] != 0);
      if (i == 0 && taken) {
        copy.taken = 1;
        if (lingers && copy.kept == 0) continue;  // it goes with the memory that it took, which is released below
      }
      if (copy.last >= 0 || copy.kept != 0 || lingers) live += problem.size[at(copy.of)];
    }
    for (const Id number : read(run)) {
      const Copy& copy = copies_[at(number)];
      if (copy.last == static_cast<Id>(run) && copy.kept == 0) live -= problem.size[at(copy.of)];
    }
  }
}

std::vector<Id> checked_runs(const Program& program, std::span<const std::int64_t> runs) {
  std::vector<Id> found;
  for (const std::int64_t run : runs) found.push_back(checked(run, program.problem.count(), "runs"));
  return found;
}

std::int64_t peak(const Program& program, std::span<const std::int64_t> runs) {
  Runs measured(program);
  if (!measured.measure(checked_runs(program, runs))) {
    throw std::invalid_argument("runs: an operator never runs, or runs before one that it waits for");
  }
  return measured.peak();
}

}  // namespace edgemem::recompute
