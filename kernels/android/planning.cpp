#include "android/planning.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "planner/common/records.h"
#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"

namespace edgemem {

namespace {

using Numbers = std::vector<std::int64_t>;

// 0 to n - 1 in the order of a comparison; of equals the lower index comes first.
template <typename Before>
Numbers sorted(std::size_t n, Before before) {
  Numbers order(n);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return before(static_cast<std::size_t>(a), static_cast<std::size_t>(b));
  });
  return order;
}

// The rules are those of edgemem/strategy/offsets, where each has its paper.

Numbers greedy_by_size(const Records& r) {
  return place_in_smallest_gap(r,
                               sorted(r.count(), [&](std::size_t a, std::size_t b) { return r.size[a] > r.size[b]; }));
}

Numbers greedy_in_order(const Records& r) {
  return place_in_smallest_gap(
      r, sorted(r.count(), [&](std::size_t a, std::size_t b) { return r.first[a] < r.first[b]; }));
}

Numbers greedy_by_breadth(const Records& r) {
  const Sections sections = section_breadths(r);
  const Numbers& starts = sections.starts;
  const Numbers by_breadth =
      sorted(starts.size(), [&](std::size_t a, std::size_t b) { return sections.breadths[a] > sections.breadths[b]; });
  Numbers turn(starts.size());
  for (std::size_t k = 0; k < by_breadth.size(); ++k) {
    turn[static_cast<std::size_t>(by_breadth[k])] = static_cast<std::int64_t>(k);
  }
  const auto section_of = [&](std::int64_t op) {
    return std::upper_bound(starts.begin(), starts.end(), op) - starts.begin() - 1;
  };
  Numbers low(r.count());
  Numbers high(r.count());
  std::transform(r.first.begin(), r.first.end(), low.begin(), section_of);
  std::transform(r.last.begin(), r.last.end(), high.begin(), section_of);
  const Numbers first_turn = range_minimum(turn, low, high);
  return place_in_smallest_gap(r, sorted(r.count(), [&](std::size_t a, std::size_t b) {
                                 return first_turn[a] != first_turn[b] ? first_turn[a] < first_turn[b]
                                                                       : r.size[a] > r.size[b];
                               }));
}

Numbers strip_packing(const Records& r) {
  return place_on_offset_lines(r, sorted(r.count(), [&](std::size_t a, std::size_t b) {
                                 return r.last[a] - r.first[a] > r.last[b] - r.first[b];
                               }));
}

struct Rule {
  const char* name;
  Numbers (*place)(const Records&);
};
constexpr std::array<Rule, 4> kRules{{{"greedy_by_size", greedy_by_size},
                                      {"greedy_by_breadth", greedy_by_breadth},
                                      {"greedy_in_order", greedy_in_order},
                                      {"strip_packing", strip_packing}}};

// Bytes without any sharing: all but the last padded. No size is 0, as each is of a request.
std::int64_t end_to_end(const Records& records) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < records.count(); ++i) {
    total += i + 1 == records.count() ? records.size[i] : records.padded(i);
  }
  return total;
}

// The columns that the rules work on: the requests that are freed, in order.
struct FreedRequests {
  Numbers requests, first, last, size;

  explicit FreedRequests(const Numbers& codes) {
    Numbers starts;
    for (std::size_t k = 0; k < codes.size(); ++k) {
      if (codes[k] > 0) starts.push_back(static_cast<std::int64_t>(k));
    }
    Numbers ends(starts.size(), -1);
    for (std::size_t k = 0; k < codes.size(); ++k) {
      if (codes[k] < 0) ends[static_cast<std::size_t>(-(codes[k] + 1))] = static_cast<std::int64_t>(k);
    }
    for (std::size_t request = 0; request < starts.size(); ++request) {
      if (ends[request] < 0) continue;
      requests.push_back(static_cast<std::int64_t>(request));
      first.push_back(starts[request]);
      last.push_back(ends[request] - 1);
      size.push_back(codes[static_cast<std::size_t>(starts[request])]);
    }
  }

  std::int64_t end(const Numbers& offsets) const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) most = std::max(most, offsets[i] + size[i]);
    return most;
  }
};

}  // namespace

std::vector<std::int64_t> codes_of(std::span<const em_event> events) {
  Numbers codes;
  codes.reserve(events.size());
  std::vector<bool> alive;
  for (const em_event& event : events) {
    const auto request = static_cast<std::size_t>(event.request);
    const bool is_right =
        event.size > 0 ? request == alive.size() : event.size == 0 && request < alive.size() && alive[request];
    if (!is_right) throw Refusal("events are missing in the record, before event %zu", codes.size());
    if (event.size > 0) {
      alive.push_back(true);
    } else {
      alive[request] = false;
    }
    codes.push_back(event.size > 0 ? event.size : -event.request - 1);
  }
  return codes;
}

PlanSet plan_stream(std::vector<std::int64_t> codes, std::int64_t alignment) {
  const FreedRequests freed(codes);
  const Records records{freed.first, freed.last, freed.size, alignment};
  PlanSet set;
  set.kind = EM_PLAN_OF_RECORDING;
  set.alignment = alignment;
  set.steps = static_cast<std::int64_t>(codes.size());
  set.lower_bound = offset_lower_bound(records);
  set.naive = end_to_end(records);
  Numbers best;
  for (const Rule& rule : kRules) {
    Numbers offsets = rule.place(records);
    const std::int64_t size = freed.end(offsets);
    if (!set.strategy.empty() && size >= set.arena) continue;
    best = std::move(offsets);
    set.arena = size;
    set.strategy = rule.name;
    if (size == set.lower_bound) break;
  }
  set.is_optimal = set.arena == set.lower_bound;
  set.stream.offsets.assign(
      static_cast<std::size_t>(std::count_if(codes.begin(), codes.end(), [](std::int64_t code) { return code > 0; })),
      -1);
  set.stream.events = std::move(codes);
  set.records.reserve(best.size());
  for (std::size_t i = 0; i < best.size(); ++i) {
    set.stream.offsets[static_cast<std::size_t>(freed.requests[i])] = best[i];
    std::string name = "request ";
    name += std::to_string(freed.requests[i]);
    set.records.push_back({std::move(name), freed.first[i], freed.last[i], freed.size[i], best[i], 0, {}});
  }
  return set;
}

}  // namespace edgemem
