#include "planner/recompute/chain.h"

#include <algorithm>

#include "planner/common/index.h"

namespace edgemem::recompute {
namespace {

constexpr std::size_t kLongest = 200;  // operators of a chain

// The last of some ascending runs that is before a place; -1: none.
Id last_before(const std::vector<Id>& runs, std::size_t place) {
  const auto after = std::lower_bound(runs.begin(), runs.end(), static_cast<Id>(place));
  return after == runs.begin() ? -1 : *(after - 1);
}

}  // namespace

Chains::Chains(const Program& program, const std::vector<char>& repeatable)
    : program_(program),
      repeatable_(repeatable),
      writer_(program.problem.writer),
      rank_(at(program.problem.count())),
      made_(at(program.problem.classes())),
      runs_of_(at(program.problem.count())),
      in_chain_(at(program.problem.count()), 0) {}

void Chains::look_at(std::span<const Id> runs, const Runs& measured) {
  runs_ = runs;
  measured_ = &measured;
  for (auto& copies : made_) copies.clear();
  for (auto& found : runs_of_) found.clear();
  first_use_.assign(measured.copies().size() + 1, 0);
  for (std::size_t n = 0; n < measured.copies().size(); ++n) {
    const Runs::Copy& copy = measured.copies()[n];
    made_[at(copy.of)].push_back(static_cast<Id>(n));
    first_use_[n + 1] = first_use_[n] + at(copy.readers);
  }
  uses_.resize(first_use_.back());
  std::vector<std::size_t> next(first_use_.begin(), first_use_.end() - 1);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::vector<Id>& found = runs_of_[at(runs[run])];
    if (found.empty()) rank_[at(runs[run])] = static_cast<Id>(run);
    found.push_back(static_cast<Id>(run));
    for (const Id copy : measured.read(run)) uses_[next[at(copy)]++] = static_cast<Id>(run);
  }
}

Ids Chains::uses(Id copy) const {
  return {uses_.data() + first_use_[at(copy)], first_use_[at(copy) + 1] - first_use_[at(copy)]};
}

std::span<const Id> Chains::chain(Id copy, std::size_t step, std::size_t place, Inputs inputs) {
  for (const Id op : chain_) in_chain_[at(op)] = 0;
  chain_.clear();
  step_ = step;
  place_ = place;
  inputs_ = inputs;
  const Id made = measured_->copies()[at(copy)].of;
  bool possible = writer_[at(made)] >= 0 && add(writer_[at(made)]);
  // Who reads it through a view reads the new copy only if the view is made again.
  for (const Id use : uses(copy)) {
    if (!possible || at(use) <= step) continue;
    const Id op = runs_[at(use)];
    const auto slot = static_cast<std::size_t>(program_.first_slot[at(op)]) + program_.slot(op, made);
    for (const Id view : program_.sources[slot]) possible = possible && (view < 0 || add(view));
  }
  for (std::size_t next = 0; possible && next < chain_.size(); ++next) possible = add_reading(chain_[next]);
  if (!possible) return {};
  std::sort(chain_.begin(), chain_.end(), [&](Id a, Id b) { return rank_[at(a)] < rank_[at(b)]; });
  return chain_;
}

// Makes an operator run again. Returns false if it may not.
bool Chains::add(Id op) {
  if (in_chain_[at(op)] != 0) return true;
  if (repeatable_[at(op)] == 0 || chain_.size() >= kLongest) return false;
  in_chain_[at(op)] = 1;
  chain_.push_back(op);
  return true;
}

// Makes what an operator of the chain reads again, as far as it is not there. Returns false if that is not possible.
bool Chains::add_reading(Id op) {
  const Ids reads = program_.problem.reads[op];
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const Id writer = writer_[at(reads[i])];
    const auto slot = static_cast<std::size_t>(program_.first_slot[at(op)]) + i;
    for (const Id view : program_.sources[slot]) {
      if (view < 0) {
        if (writer < 0 || in_chain_[at(writer)] != 0) continue;
        const std::vector<Id>& copies = made_[at(reads[i])];
        const auto newest = std::find_if(copies.rbegin(), copies.rend(), [&](Id copy) {
          return measured_->copies()[at(copy)].made < static_cast<Id>(place_);
        });
        if (newest != copies.rend() && is_there(*newest)) continue;
        if (repeatable_[at(writer)] != 0 && !add(writer)) return false;
        continue;
      }
      if (in_chain_[at(view)] != 0) continue;
      const Id run = last_before(runs_of_[at(view)], place_);
      if (run < 0) return false;
      const Ids copies = measured_->read(at(run), program_.slot(view, reads[i]));
      if (std::all_of(copies.begin(), copies.end(), [&](Id copy) { return is_there(copy); })) continue;
      if (repeatable_[at(view)] != 0 && !add(view)) return false;
    }
  }
  return true;
}

// Whether a copy is alive at the place of the chain, or may as well stay so.
bool Chains::is_there(Id number) const {
  const Runs::Copy& copy = measured_->copies()[at(number)];
  if (copy.kept != 0 || copy.last >= static_cast<Id>(place_) || inputs_ == Inputs::kKeep) return true;
  return inputs_ == Inputs::kSpare && copy.last > static_cast<Id>(step_);
}

}  // namespace edgemem::recompute
