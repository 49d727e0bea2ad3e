#include "planner/schedule/cuts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/index.h"

namespace edgemem::schedule {
namespace {

constexpr MaxFlow::Node kSource = 0;
constexpr MaxFlow::Node kSink = 1;
constexpr Id kNoId = -1;

}  // namespace

Cuts::Cuts(const Problem& problem)
    : problem_(problem),
      run_(problem),
      side_(at(problem_.count())),
      node_(at(problem_.count())),
      ran_(at(problem_.count())) {}

// Sorts all operators: those that run before this one in any order, those that run after it, the others. Returns
// whether there is such an order.
bool Cuts::split(Id op, Ids later, Ids earlier) {
  op_ = op;
  std::fill(side_.begin(), side_.end(), Side::kFree);
  work_ += static_cast<std::int64_t>(side_.size());
  const auto mark = [&](const auto& neighbours, Side mine, Side other) {
    while (!stack_.empty()) {
      const Id k = stack_.back();
      stack_.pop_back();
      for (const Id next : neighbours[k]) {
        ++work_;
        if (side(next) == other) return false;
        if (side(next) == mine) continue;
        side_[at(next)] = mine;
        stack_.push_back(next);
      }
    }
    return true;
  };
  const auto begin = [&](Ids operators, Side mine) {
    stack_.assign(operators.begin(), operators.end());
    for (const Id k : operators) side_[at(k)] = mine;
  };
  begin(later, Side::kWaits);
  side_[at(op)] = Side::kWaits;
  stack_.push_back(op);
  mark(problem_.after, Side::kWaits, Side::kRan);
  const auto waits = [&](Id k) { return side(k) == Side::kWaits; };
  if (std::any_of(earlier.begin(), earlier.end(), waits)) return false;
  begin(earlier, Side::kRan);
  stack_.push_back(op);
  return mark(problem_.before, Side::kRan, Side::kWaits);
}

// The network for the operator of `split`. `taken`: a class whose size counts unless all its other readers ran.
void Cuts::build(Id taken) {
  nodes_ = kSink + 1;
  for (std::size_t k = 0; k < side_.size(); ++k) {
    if (side_[k] == Side::kFree) node_[k] = nodes_++;
  }
  flow_.reset(at(nodes_));  // and one more for some classes
  unless_ran_.assign(at(nodes_), 0);
  if_ran_.assign(at(nodes_), 0);
  base_ = 0;
  for (Id c = 0; c < problem_.classes(); ++c) {
    const Id writer = problem_.writer[at(c)];
    if (writer == kNoId && problem_.present[at(c)] == 0) continue;
    if (problem_.kept[at(c)] != 0) {
      pay(writer, problem_.size[at(c)]);
    } else {
      pay_for_class(writer, problem_.size[at(c)], problem_.readers[c], writer);
    }
  }
  if (taken != kNoId) pay_for_class(kNoId, problem_.size[at(taken)], problem_.readers[taken], op_);
  for (Id k = 0; k < problem_.count(); ++k) {
    pay(k, problem_.leaves[at(k)]);
    if (side(k) != Side::kFree) continue;
    for (const Id first : problem_.before[k]) {
      if (side(first) == Side::kFree) flow_.connect(node(k), node(first), MaxFlow::kUnlimited);
    }
    work_ += static_cast<std::int64_t>(problem_.before[k].size());
  }
  for (MaxFlow::Node v = kSink + 1; at(v) < unless_ran_.size(); ++v) {
    // What counts either way is left out of the network.
    const std::int64_t either = std::min(unless_ran_[at(v)], if_ran_[at(v)]);
    base_ += either;
    if (unless_ran_[at(v)] > either) flow_.connect(kSource, v, unless_ran_[at(v)] - either);
    if (if_ran_[at(v)] > either) flow_.connect(v, kSink, if_ran_[at(v)] - either);
  }
}

// Bytes that are alive once the writer ran.
void Cuts::pay(Id writer, std::int64_t bytes) {
  if (writer == kNoId || side(writer) == Side::kRan) {
    base_ += bytes;
  } else if (side(writer) == Side::kFree) {
    if_ran_[at(node(writer))] += bytes;
  }
}

// Bytes that are alive once the writer ran, until all readers did.
void Cuts::pay_for_class(Id writer, std::int64_t bytes, Ids readers, Id except) {
  const bool is_written = writer == kNoId || side(writer) == Side::kRan;
  work_ += static_cast<std::int64_t>(readers.size());
  if (bytes == 0 || (!is_written && side(writer) == Side::kWaits)) return;
  int free = 0;
  Id some = kNoId;
  for (const Id r : readers) {
    if (r == except) continue;
    if (side(r) == Side::kWaits) return pay(writer, bytes);
    if (side(r) != Side::kFree) continue;
    ++free;
    some = r;
  }
  if (free == 0) return;
  if (free == 1 && is_written) {
    unless_ran_[at(node(some))] += bytes;
  } else if (free == 1) {
    flow_.connect(node(writer), node(some), bytes);
  } else {
    const MaxFlow::Node memory = flow_.add_node();
    flow_.connect(is_written ? kSource : node(writer), memory, bytes);
    for (const Id r : readers) {
      if (r != except && side(r) == Side::kFree) flow_.connect(memory, node(r), MaxFlow::kUnlimited);
    }
  }
}

// The least that is alive before the operator, with `taken` as in `build`.
std::int64_t Cuts::cut(Id taken, std::int64_t enough) {
  build(taken);
  if (base_ >= enough) return base_;
  const std::int64_t cut = base_ + flow_.push(kSource, kSink, enough - base_);
  if (cut >= enough) return cut;
  for (std::size_t k = 0; k < side_.size(); ++k) {
    ran_[k] = side_[k] == Side::kFree ? !flow_.is_behind(node_[k]) : side_[k] == Side::kRan;
  }
  return cut;
}

std::int64_t Cuts::least(Id op, std::int64_t enough, Ids later, Ids earlier) {
  if (!split(op, later, earlier)) return MaxFlow::kUnlimited;
  const std::int64_t bodies = problem_.early[at(op)] + problem_.inside[at(op)];
  const std::int64_t results = problem_.born[at(op)] + problem_.own[at(op)];
  const std::int64_t gain = problem_.over[op].empty() ? 0 : problem_.size[at(problem_.writes[op].front())];
  if (gain == 0 || bodies >= results) {
    const std::int64_t more = std::max(bodies, results);
    return more + cut(kNoId, enough - more);
  }
  std::int64_t found = 0;
  if (bodies > results - gain) found = bodies + cut(kNoId, enough - bodies);
  return std::max(found, found >= enough ? 0 : with_results(op, enough));
}

// The least at the operator's step where its first result may take the memory of an input.
std::int64_t Cuts::with_results(Id op, std::int64_t enough) {
  const std::int64_t results = problem_.born[at(op)] + problem_.own[at(op)];
  const std::int64_t less = results - problem_.size[at(problem_.writes[op].front())];
  std::vector<Id> possible;  // classes that have other readers, none of which must come later
  for (const Id c : problem_.over[op]) {
    bool is_last = true;
    bool may_be_last = true;
    for (const Id r : problem_.readers[c]) {
      is_last = is_last && (r == op || side(r) == Side::kRan);
      may_be_last = may_be_last && (r == op || side(r) != Side::kWaits);
    }
    if (is_last) return less + cut(kNoId, enough - less);
    if (may_be_last) possible.push_back(c);
  }
  if (possible.empty()) return results + cut(kNoId, enough - results);
  std::int64_t least = MaxFlow::kUnlimited;
  std::vector<char> ran;
  for (const Id c : possible) {
    const std::int64_t found = less + cut(c, std::min(enough, least) - less);
    if (found >= least || found >= enough) continue;
    least = found;
    ran = ran_;
  }
  if (least < enough) ran_ = std::move(ran);
  return std::min(least, enough);
}

std::int64_t Cuts::along(Id op, Ids sequence) {
  split(op);
  run_.reset();
  for (const Id k : sequence) {
    if (side(k) == Side::kRan) run_.run(k);
  }
  std::int64_t least = run_.during(op);
  for (const Id k : sequence) {
    if (side(k) != Side::kFree) continue;
    run_.run(k);
    least = std::min(least, run_.during(op));
  }
  work_ += static_cast<std::int64_t>(4 * sequence.size());
  return least;
}

std::int64_t Cuts::beside(Id op, const std::vector<char>& marked, Ids sequence) {
  split(op);
  run_.reset();
  for (const Id k : sequence) {
    if (side(k) == Side::kRan || (side(k) == Side::kFree && marked[at(k)])) run_.run(k);
  }
  work_ += static_cast<std::int64_t>(4 * sequence.size());
  return run_.during(op);
}

std::vector<Id> Cuts::unordered(Id op) {
  split(op);
  std::vector<Id> found;
  for (Id k = 0; k < problem_.count(); ++k) {
    if (side(k) == Side::kFree) found.push_back(k);
  }
  return found;
}

}  // namespace edgemem::schedule
