#include "planner/offsets/spatio_temporal/local_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/by_size.h"

namespace edgemem::spatio_temporal {

namespace {

// The columns of some of the records.
struct Part {
  std::vector<std::int64_t> first, last, size;

  Part(const Records& records, std::span<const std::size_t> ids) {
    for (const std::size_t i : ids) {
      first.push_back(records.first[i]);
      last.push_back(records.last[i]);
      size.push_back(records.padded(i));
    }
  }

  template <typename Less>
  std::vector<std::int64_t> order(Less less) const {
    std::vector<std::int64_t> sorted(size.size());
    std::iota(sorted.begin(), sorted.end(), std::int64_t{0});
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int64_t a, std::int64_t b) {
      return less(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
    });
    return sorted;
  }
};

void stack_by_end(const Records& records, LocalPlan& plan) {
  std::stable_sort(plan.records.begin(), plan.records.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(-records.last[a], records.first[a]) < std::tuple(-records.last[b], records.first[b]);
  });
  std::int64_t top = 0;
  for (const std::size_t i : plan.records) {
    plan.offsets.push_back(top);
    top += records.padded(i);
  }
}

void share_bytes(const Records& records, LocalPlan& plan, Poll& poll) {
  const Part part(records, plan.records);
  const Records members{part.first, part.last, part.size};
  for (const std::int64_t share : {0, 8}) {
    for (const Tie tie : {Tie::kFirst, Tie::kLast, Tie::kLifetime}) {
      LocalPlan tried = plan;
      tried.offsets = place_by({tie, share}, members, poll);
      measure(records, tried);
      if (plan.offsets.empty() || tried.size < plan.size) plan = std::move(tried);
    }
  }
}

}  // namespace

void measure(const Records& records, LocalPlan& plan) {
  plan.size = 0;
  plan.first = std::numeric_limits<std::int64_t>::max();
  plan.last = 0;
  plan.used = 0;
  for (std::size_t k = 0; k < plan.records.size(); ++k) {
    const std::size_t i = plan.records[k];
    plan.size = std::max(plan.size, plan.offsets[k] + records.padded(i));
    plan.first = std::min(plan.first, records.first[i]);
    plan.last = std::max(plan.last, records.last[i]);
    plan.used += static_cast<double>(records.padded(i)) * static_cast<double>(records.last[i] - records.first[i] + 1);
  }
}

std::vector<LocalPlan> plan_phase_groups(const Records& records, Column phases, Rules rules, Poll& poll) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] == 0 || records.is_pinned(i) || phases[2 * i] < 0 || phases[2 * i + 1] < 0) continue;
    groups[{phases[2 * i], phases[2 * i + 1]}].push_back(i);
  }
  std::vector<std::pair<std::size_t, LocalPlan>> made;  // with the lowest record of each
  for (auto& [pair, ids] : groups) {
    poll.step();
    LocalPlan plan{pair.first, pair.second, std::move(ids), {}};
    const std::size_t lowest = plan.records.front();
    if (rules == Rules::kPaper) {
      stack_by_end(records, plan);
    } else {
      share_bytes(records, plan, poll);
    }
    measure(records, plan);
    made.emplace_back(lowest, std::move(plan));
  }
  std::sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.first, a.first) < std::tuple(b.second.first, b.first);
  });
  std::vector<LocalPlan> plans;
  plans.reserve(made.size());
  for (auto& [lowest, plan] : made) plans.push_back(std::move(plan));
  return plans;
}

LocalPlan insert_best_fit(const Records& records, const LocalPlan& fixed, const LocalPlan& added) {
  LocalPlan both = fixed;
  both.records.insert(both.records.end(), added.records.begin(), added.records.end());
  const Part part(records, both.records);
  std::vector<std::int64_t> pinned = fixed.offsets;
  pinned.resize(both.records.size(), -1);
  const auto order = part.order([&](std::size_t a, std::size_t b) { return part.first[a] < part.first[b]; });
  both.offsets = place_in_smallest_gap({part.first, part.last, part.size, 1, pinned}, order);
  measure(records, both);
  return both;
}

}  // namespace edgemem::spatio_temporal
