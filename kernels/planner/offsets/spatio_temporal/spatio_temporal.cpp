#include "planner/offsets/spatio_temporal/spatio_temporal.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/fusion.h"
#include "planner/offsets/spatio_temporal/layers.h"
#include "planner/offsets/spatio_temporal/phases.h"
#include "planner/offsets/spatio_temporal/size_class.h"

namespace edgemem::spatio_temporal {

namespace {

constexpr std::int64_t kFusionWork = 1'000'000'000;  // pairs of records, about two seconds

// Groups with a lower product are taken apart; 2 takes all apart.
constexpr double kLeastProducts[] = {2, 0.9, 0.7, 0};
// Steps an octave of sizes that count as equal; 0: equal sizes alone.
constexpr int kSteps[] = {0, 1, 4, 16};

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

// Columns of the requests and of the pinned records, and the orders in which they may be placed.
class Global {
 public:
  Global(const Records& records, const Requests& requests) : records_(records), requests_(requests) {
    for (const Request& row : requests.rows) add(row.first, row.last, row.size, -1);
    for (std::size_t i = 0; i < records.count(); ++i) {
      if (records.is_pinned(i)) add(records.first[i], records.last[i], records.padded(i), records.pinned[i]);
    }
  }

  enum class Tie { kFirst, kLast, kLifetime };

  std::vector<std::int64_t> place(int steps, Tie tie, Poll& poll) const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> keys;
    for (std::size_t r = 0; r < size_.size(); ++r) {
      const std::int64_t by = tie == Tie::kFirst ? first_[r] : tie == Tie::kLast ? -last_[r] : first_[r] - last_[r];
      keys.emplace_back(-size_class(size_[r], steps), by, static_cast<std::int64_t>(r));
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::int64_t> order;
    order.reserve(keys.size());
    for (const auto& key : keys) order.push_back(std::get<2>(key));
    const Records all{first_, last_, size_, records_.alignment, pinned_, records_.reserved};
    return requests_.spread(records_, place_in_smallest_gap(all, order, kScanLimit, poll), 0);
  }

 private:
  void add(std::int64_t first, std::int64_t last, std::int64_t size, std::int64_t offset) {
    first_.push_back(first);
    last_.push_back(last);
    size_.push_back(size);
    pinned_.push_back(offset);
  }

  const Records& records_;
  const Requests& requests_;
  std::vector<std::int64_t> first_, last_, size_, pinned_;
};

}  // namespace

std::vector<std::int64_t> plan(const Records& records, Column phases, Rules rules, Poll poll) {
  check(records);
  if (!phases.empty() && phases.size() != 2 * records.count()) {
    throw std::invalid_argument("phases are not two a record");
  }
  const std::vector<std::int64_t> derived = phases.empty() ? phases_by_load(records) : std::vector<std::int64_t>();
  const Column known = phases.empty() ? Column(derived) : phases;
  const std::vector<LocalPlan> groups =
      fuse(records, plan_phase_groups(records, known, rules, poll), rules, kFusionWork, poll);
  if (rules == Rules::kPaper) {
    const Requests requests = requests_of(records, groups, 0);
    return requests.spread(records, place_in_layers(requests.rows, poll), top_of_fixed(records));
  }
  const std::int64_t bound = offset_lower_bound(records);
  std::vector<std::int64_t> best;
  std::int64_t least = 0;
  std::size_t count = std::numeric_limits<std::size_t>::max();
  for (const double product : kLeastProducts) {
    const Requests requests = requests_of(records, groups, product);
    if (requests.rows.size() == count) continue;  // the same groups as before
    count = requests.rows.size();
    const Global global(records, requests);
    for (const int steps : kSteps) {
      for (const Global::Tie tie : {Global::Tie::kFirst, Global::Tie::kLast, Global::Tie::kLifetime}) {
        std::vector<std::int64_t> tried = global.place(steps, tie, poll);
        const std::int64_t arena = arena_of(records, tried);
        if (!best.empty() && arena >= least) continue;
        best = std::move(tried);
        least = arena;
        if (least == bound) return best;
      }
    }
  }
  return best;
}

}  // namespace edgemem::spatio_temporal
