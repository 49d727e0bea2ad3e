#include "planner/offsets/related/search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/common/budget.h"
#include "planner/offsets/related/bound.h"
#include "planner/offsets/related/conflicts.h"
#include "planner/offsets/related/exact.h"
#include "planner/offsets/related/groups.h"
#include "planner/offsets/related/local_search.h"
#include "planner/offsets/related/start_orders.h"

namespace edgemem::related {
namespace {

// The most work on whole homes, and on the groups in blocks, one for each home: one part in so many of all work. And
// how many rounds without an improvement end it.
constexpr std::int64_t kHomesShare = 20;
constexpr int kHomeRounds = 2;
constexpr std::int64_t kBlocksShare = 2;
constexpr int kBlockRounds = 20;

// Rounds without an improvement among few groups, before all plans are tried.
constexpr int kRoundsBeforeProof = 2;
// All plans of so many groups are tried.
constexpr std::size_t kFew = 24;

std::vector<Value> offsets_of(const Groups& groups, const std::vector<Value>& bases, Value step) {
  std::vector<Value> offsets(groups.of.size(), 0);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (groups.of[i] != kNone) offsets[i] = (bases[groups.of[i]] + groups.depth[i]) * step;
  }
  return offsets;
}

std::vector<Index> one_by_one(const Groups& groups) {
  std::vector<Index> blocks(groups.count());
  std::iota(blocks.begin(), blocks.end(), Index{0});
  return blocks;
}

class Search {
 public:
  Search(const Records& records, const Relations& relations, const SearchLimits& limits)
      : records_(records),
        relations_(relations),
        work_(limits.work),
        seed_(limits.seed),
        poll_(limits.poll),
        budget_(limits.work, limits.seconds, records.count()) {
    budget_.poll(limits.poll);
  }

  SearchResult run() {
    result_.bound = lower_bound(records_, relations_);
    const Groups groups = container_groups(records_, relations_);
    for (Index group = 0; group < groups.count(); ++group) {
      // What lies within a pinned record, and what a pinned record lies within, is pinned with it.
      if (groups.pin[group] >= 0) raise_bound(groups.pin[group] * records_.alignment + groups.top[group]);
    }
    const std::vector<Pair> pairs = forbidden_pairs(records_, relations_, poll_);
    std::vector<Order> starts;
    std::vector<Index> blocks;
    if (!relations_.roles.empty()) {
      starts = search_homes(groups, with_homes(groups, records_, relations_, pairs), pairs, blocks);
    }
    if (!is_done()) search_groups(groups, Conflicts(records_, groups, pairs), starts, blocks);
    const Stop spent = budget_.out_of_time() ? Stop::kTime : Stop::kWork;
    result_.stopped = !result_.optimal() ? spent : is_proved_ ? Stop::kProof : Stop::kBound;
    result_.work = budget_.spent();
    return std::move(result_);
  }

 private:
  // Places whole homes. Returns orders to begin with for the groups, and the home of each as its block.
  std::vector<Order> search_homes(const Groups& groups, const Groups& homes, const std::vector<Pair>& pairs,
                                  std::vector<Index>& blocks) {
    const Conflicts conflicts(records_, homes, pairs);
    const std::vector<Order> orders = start_orders(records_, homes);
    LocalSearch search(conflicts, seed_);
    search.begin(orders, budget_, result_.bound);
    search.run(one_by_one(homes), budget_, result_.bound, work_ / kHomesShare, kHomeRounds);
    take(homes, search.bases(), search.size());
    std::vector<Order> starts{in_order_of_homes(records_, groups, homes, search.order())};
    for (const Order& order : orders) starts.push_back(in_order_of_homes(records_, groups, homes, order));
    blocks.resize(groups.count());
    for (std::size_t i = 0; i < records_.count(); ++i) {
      if (groups.of[i] != kNone) blocks[groups.of[i]] = homes.of[i];
    }
    return starts;
  }

  void search_groups(const Groups& groups, const Conflicts& conflicts, const std::vector<Order>& starts,
                     const std::vector<Index>& blocks) {
    const std::vector<std::vector<Index>> parts = components(conflicts);
    const bool are_few = std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.size() <= kFew; });
    LocalSearch search(conflicts, seed_);
    if (!blocks.empty()) {
      search.begin(starts, budget_, result_.bound);
      search.run(blocks, budget_, result_.bound, work_ / kBlocksShare, kBlockRounds);
    }
    if (blocks.empty() || search.size() > result_.bound) {
      search.begin(start_orders(records_, groups), budget_, result_.bound);
    }
    if (are_few) search.run(one_by_one(groups), budget_, result_.bound, work_, kRoundsBeforeProof);
    take(groups, search.bases(), search.size());
    if (are_few) try_all(groups, conflicts, parts, search.bases());
    if (is_done()) return;
    search.run(one_by_one(groups), budget_, result_.bound, work_);
    take(groups, search.bases(), search.size());
  }

  // Improves the part that ends highest until there is nothing better.
  void try_all(const Groups& groups, const Conflicts& conflicts, const std::vector<std::vector<Index>>& parts,
               std::vector<Value> bases) {
    while (!is_done()) {
      const auto end = [&](const std::vector<Index>& part) {
        Value top = 0;
        for (const Index group : part) top = std::max(top, conflicts.end(group, bases[group]));
        return top;
      };
      const std::vector<Index>* highest = nullptr;
      Value top = 0;
      for (const std::vector<Index>& part : parts) {
        if (end(part) <= top) continue;
        top = end(part);
        highest = &part;
      }
      if (highest == nullptr || top < result_.size) return;
      Exact exact(conflicts, *highest);
      const Exact::Answer answer = exact.fit(top - 1, budget_, (work_ - budget_.spent()) / 2);
      if (answer == Exact::Answer::kNone) raise_bound(top);
      if (answer != Exact::Answer::kFound) return;
      for (std::size_t k = 0; k < highest->size(); ++k) bases[(*highest)[k]] = exact.bases()[k];
      Value size = 0;
      for (Index group = 0; group < conflicts.count(); ++group) {
        size = std::max(size, conflicts.end(group, bases[group]));
      }
      take(groups, bases, size);
    }
  }

  void raise_bound(Value bound) {
    if (bound <= result_.bound) return;
    is_proved_ = true;
    result_.bound = bound;
  }

  bool is_done() const { return has_plan_ && (result_.optimal() || budget_.out_of_time() || budget_.out_of_work()); }

  void take(const Groups& groups, const std::vector<Value>& bases, Value size) {
    if (has_plan_ && size >= result_.size) return;
    has_plan_ = true;
    result_.size = size;
    result_.offsets = offsets_of(groups, bases, records_.alignment);
  }

  const Records& records_;
  const Relations& relations_;
  std::int64_t work_;
  std::uint64_t seed_;
  Poll poll_;
  Budget budget_;
  SearchResult result_;
  bool has_plan_ = false;
  bool is_proved_ = false;
};

}  // namespace

SearchResult search(const Records& records, const Relations& relations, const SearchLimits& limits) {
  check(records, relations);
  return Search(records, relations, limits).run();
}

}  // namespace edgemem::related
