#include "planner/offsets/spatio_temporal/spatio_temporal.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/common/budget.h"
#include "planner/offsets/breadth.h"
#include "planner/offsets/spatio_temporal/by_size.h"
#include "planner/offsets/spatio_temporal/fusion.h"
#include "planner/offsets/spatio_temporal/layers.h"
#include "planner/offsets/spatio_temporal/lower.h"
#include "planner/offsets/spatio_temporal/phases.h"

namespace edgemem::spatio_temporal {

namespace {

constexpr std::int64_t kFusionWork = 1'000'000'000;  // pairs of records, about two seconds

constexpr std::int64_t kLook = 1 << 20;  // items that make a budget look at the clock

constexpr double kAllApart = 2;  // as a least product: no group is one request

// One plan of the global planning.
struct Trial {
  double least_product;  // groups with a lower product are taken apart
  Order order;
};

// Before there are groups: where sizes and lifetimes are regular, this often meets the bound.
constexpr Trial kFirstTrial{kAllApart, {Tie::kLifetime}};

// Few requests first. No trial is the best one for all traces; each is for some of them.
constexpr Trial kTrials[] = {
    {0, {Tie::kFirst}},
    {0, {Tie::kLast}},
    {0, {Tie::kLifetime}},
    {0, {Tie::kFirst, 8}},
    {0, {Tie::kLast, 8}},
    {0, {Tie::kLifetime, 8}},
    {0, {Tie::kFirst, 0, kAnySize}},
    {0.7, {Tie::kLast, 8}},
    {0.7, {Tie::kLifetime, 8}},
    {0.7, {Tie::kLast, 16}},
    {kAllApart, {Tie::kLast}},
    {kAllApart, {Tie::kFirst, 0, kAnySize, 16}},
    {kAllApart, {Tie::kLoad, 0, 1}},
    {kAllApart, {Tie::kLoad, 0, 4}},
    {kAllApart, {Tie::kLifetime, 0, 4}},
    {kAllApart, {Tie::kLast, 8}},
    {kAllApart, {Tie::kLifetime, 8}},
    {kAllApart, {Tie::kLast, 16}},
};

struct Requests {
  std::vector<Request> rows;
  std::vector<const LocalPlan*> group;  // nullptr: a record
  std::vector<std::size_t> record;

  void add(const Records& records, std::size_t i) {
    rows.push_back({records.first[i], records.last[i], records.padded(i)});
    group.push_back(nullptr);
    record.push_back(i);
  }

  // The offsets of the records from those of the requests, moved up by `base`.
  std::vector<std::int64_t> spread(const Records& records, const std::vector<std::int64_t>& offsets,
                                   std::int64_t base) const {
    std::vector<std::int64_t> found(records.count(), 0);
    for (std::size_t i = 0; i < records.count(); ++i) {
      if (records.is_pinned(i)) found[i] = records.pinned[i];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (group[r] == nullptr) {
        found[record[r]] = base + offsets[r];
        continue;
      }
      const LocalPlan& plan = *group[r];
      for (std::size_t k = 0; k < plan.records.size(); ++k) {
        found[plan.records[k]] = base + offsets[r] + plan.offsets[k];
      }
    }
    return found;
  }
};

// Groups with at least this product, and the records of the others and of none.
Requests requests_of(const Records& records, const std::vector<LocalPlan>& groups, double least_product) {
  Requests requests;
  std::vector<bool> is_in(records.count(), false);
  for (const LocalPlan& group : groups) {
    if (group.product() < least_product) continue;
    requests.rows.push_back({group.first, group.last, group.size});
    requests.group.push_back(&group);
    requests.record.push_back(0);
    for (const std::size_t i : group.records) is_in[i] = true;
  }
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (!is_in[i] && records.size[i] > 0 && !records.is_pinned(i)) requests.add(records, i);
  }
  return requests;
}

std::int64_t top_of_fixed(const Records& records) {
  std::int64_t top = records.reserved.empty() ? 0 : records.reserved.back();
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.is_pinned(i)) top = std::max(top, records.pinned[i] + records.padded(i));
  }
  return top;
}

std::int64_t arena_of(const Records& records, const std::vector<std::int64_t>& offsets) {
  std::int64_t top = 0;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] > 0) top = std::max(top, offsets[i] + records.size[i]);
  }
  return top;
}

// Columns of the requests, and after them of the pinned records.
struct Columns {
  std::vector<std::int64_t> first, last, size, pinned;

  Columns(const Records& records, const Requests& requests) {
    for (const Request& row : requests.rows) add(row.first, row.last, row.size, -1);
    for (std::size_t i = 0; i < records.count(); ++i) {
      if (records.is_pinned(i)) add(records.first[i], records.last[i], records.padded(i), records.pinned[i]);
    }
  }

 private:
  void add(std::int64_t first_op, std::int64_t last_op, std::int64_t bytes, std::int64_t offset) {
    first.push_back(first_op);
    last.push_back(last_op);
    size.push_back(bytes);
    pinned.push_back(offset);
  }
};

// The smallest plan of those that were tried.
class Trials {
 public:
  explicit Trials(const Records& records) : records_(records) {
    result_.bound = offset_lower_bound(records);
    double total = 0;
    for (std::size_t i = 0; i < records.count(); ++i) total += static_cast<double>(records.padded(i));
    may_raise_ = total < static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 4;
  }

  void run(const std::vector<LocalPlan>& groups, const Trial& trial, const Poll& poll) {
    if (trial.order.share != 0 && !may_raise_) return;
    const Requests requests = requests_of(records_, groups, trial.least_product);
    // With as many requests they are the same ones: groups are taken apart from the lowest product up.
    const Order& order = trial.order;
    if (!seen_.emplace(requests.rows.size(), order.tie, order.share, order.octaves, order.levels).second) return;
    const Columns columns(records_, requests);
    const Records all{columns.first, columns.last, columns.size, records_.alignment, columns.pinned, records_.reserved};
    const std::vector<std::int64_t> offsets = place_by(order, all, poll);
    std::vector<std::int64_t> tried = lowered(records_, requests.spread(records_, offsets, 0));
    const std::int64_t arena = arena_of(records_, tried);
    ++result_.tried;
    if (result_.tried > 1 && arena >= least_) return;
    result_.offsets = std::move(tried);
    least_ = arena;
    if (least_ == result_.bound) result_.stopped = Stop::kBound;
  }

  bool is_optimal() const { return result_.stopped == Stop::kBound; }
  Result& result() { return result_; }

 private:
  const Records& records_;
  Result result_;
  std::int64_t least_ = 0;
  std::set<std::tuple<std::size_t, Tie, std::int64_t, int, std::int64_t>> seen_;
  bool may_raise_ = true;  // sizes, without leaving int64
};

void plan_improved(const Records& records, Column phases, const Poll& poll, Trials& trials) {
  trials.run({}, kFirstTrial, poll);
  if (trials.is_optimal()) return;
  Poll counted = poll;
  const std::vector<LocalPlan> groups = fuse(records, plan_phase_groups(records, phases, Rules::kImproved, counted),
                                             Rules::kImproved, kFusionWork, counted);
  for (const Trial& trial : kTrials) {
    trials.run(groups, trial, poll);
    if (trials.is_optimal()) return;
  }
}

std::vector<std::int64_t> plan_as_printed(const Records& records, Column phases, Poll poll) {
  const std::vector<LocalPlan> groups =
      fuse(records, plan_phase_groups(records, phases, Rules::kPaper, poll), Rules::kPaper, kFusionWork, poll);
  const Requests requests = requests_of(records, groups, 0);
  return requests.spread(records, place_in_layers(requests.rows, poll), top_of_fixed(records));
}

// All records one above the other.
std::vector<std::int64_t> end_to_end(const Records& records) {
  Requests requests = requests_of(records, {}, 0);
  std::vector<std::int64_t> offsets;
  std::int64_t top = 0;
  for (const Request& row : requests.rows) {
    offsets.push_back(top);
    top += row.size;
  }
  return requests.spread(records, offsets, top_of_fixed(records));
}

}  // namespace

Result plan(const Records& records, Column phases, Rules rules, const Limits& limits) {
  check(records);
  if (!phases.empty() && phases.size() != 2 * records.count()) {
    throw std::invalid_argument("phases are not two a record");
  }
  Budget budget(0, limits.seconds);
  budget.poll(limits.poll);
  const Poll poll([&] { budget.pass(kLook); });
  Trials trials(records);
  Result& result = trials.result();
  try {
    const std::vector<std::int64_t> derived = phases.empty() ? phases_by_load(records) : std::vector<std::int64_t>();
    const Column known = phases.empty() ? Column(derived) : phases;
    if (rules == Rules::kPaper) {
      result.offsets = plan_as_printed(records, known, poll);
      result.tried = 1;
      if (arena_of(records, result.offsets) == result.bound) result.stopped = Stop::kBound;
    } else {
      plan_improved(records, known, poll, trials);
    }
  } catch (const OutOfTime&) {
    result.stopped = Stop::kTime;
    if (result.tried == 0) result.offsets = end_to_end(records);
  }
  return std::move(result);
}

}  // namespace edgemem::spatio_temporal
