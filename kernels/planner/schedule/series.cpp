#include "planner/schedule/series.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "planner/common/index.h"

namespace edgemem::schedule {
namespace {

// Whether all operators before a place must come before all behind it: for each place in the order.
//
// An operator before the place that nothing before it waits for is an end, one behind it that waits for nothing behind
// it is a beginning. Every beginning must wait for every end, directly: there is nothing between them.
std::vector<char> find_waists(const Problem& problem, const std::vector<Id>& order) {
  const std::size_t count = order.size();
  std::vector<char> is_end(count, 0), is_beginning(count, 0), is_waist(count + 1, 0);
  std::vector<Id> waits(count);
  std::size_t ends = 0, beginnings = 0, pairs = 0;  // of an end and a beginning that waits for it
  for (Id k = 0; k < problem.count(); ++k) {
    waits[at(k)] = static_cast<Id>(problem.before[k].size());
    is_beginning[at(k)] = waits[at(k)] == 0 ? 1 : 0;
    beginnings += waits[at(k)] == 0 ? 1 : 0;
  }
  const auto marked = [](const std::vector<char>& marks, Ids ids) {
    return static_cast<std::size_t>(std::count_if(ids.begin(), ids.end(), [&](Id k) { return marks[at(k)] != 0; }));
  };
  is_waist.front() = is_waist.back() = 1;
  for (std::size_t place = 0; place < count; ++place) {
    const Id op = order[place];
    is_waist[place] |= pairs == ends * beginnings ? 1 : 0;
    pairs -= marked(is_end, problem.before[op]);
    is_beginning[at(op)] = 0;
    --beginnings;
    for (const Id first : problem.before[op]) {
      if (is_end[at(first)] == 0) continue;
      is_end[at(first)] = 0;
      --ends;
      pairs -= marked(is_beginning, problem.after[first]);
    }
    is_end[at(op)] = 1;
    ++ends;
    for (const Id then : problem.after[op]) {
      if (--waits[at(then)] > 0) continue;
      is_beginning[at(then)] = 1;
      ++beginnings;
      pairs += marked(is_end, problem.before[then]);
    }
  }
  return is_waist;
}

}  // namespace

std::vector<std::size_t> series_places(const Problem& problem, const std::vector<Id>& order) {
  const std::vector<char> is_waist = find_waists(problem, order);
  std::vector<std::size_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[at(order[k])] = k;
  std::vector<std::size_t> places{0};
  std::size_t joined = 0;  // no part begins up to this place
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k > joined && is_waist[k] != 0 && places.back() < k) places.push_back(k);
    const Ids over = problem.over[order[k]];
    const bool is_alone = places.back() == k && is_waist[k + 1] != 0;
    if (over.empty() || is_alone) continue;
    // The order within the part may decide what this operator takes: whoever depends on that is in the same part.
    const Id result = problem.writes[order[k]].front();
    if (problem.lingers[at(result)] != 0) joined = order.size();
    if (problem.guarded[at(result)] == 0) continue;
    for (const Id reader : problem.readers[result]) {
      const Ids takes = problem.over[reader];
      if (std::find(takes.begin(), takes.end(), result) != takes.end()) joined = std::max(joined, place[at(reader)]);
    }
  }
  if (!order.empty()) places.push_back(order.size());
  return places;
}

std::vector<std::vector<Id>> components(const Problem& problem) {
  std::vector<Id> leader(at(problem.count()));
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](Id k) {
    while (leader[at(k)] != k) k = leader[at(k)] = leader[at(leader[at(k)])];
    return k;
  };
  for (Id k = 0; k < problem.count(); ++k) {
    for (const Id first : problem.before[k]) {
      const Id a = find(k);
      const Id b = find(first);
      leader[at(std::max(a, b))] = std::min(a, b);
    }
  }
  std::vector<std::vector<Id>> sets;
  std::vector<std::size_t> number(at(problem.count()));
  for (Id k = 0; k < problem.count(); ++k) {
    if (find(k) == k) {
      number[at(k)] = sets.size();
      sets.emplace_back();
    }
    sets[number[at(find(k))]].push_back(k);
  }
  return sets;
}

}  // namespace edgemem::schedule
