// Problems of order that a test owns, made at random, and the peaks of their orders from what the fields mean: from
// positions in the order, without counting readers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "planner/schedule/problem.h"
#include "tests/instance.h"

using edgemem::schedule::Fields;

inline bool has(const Values& values, std::int64_t wanted) {
  return std::find(values.begin(), values.end(), wanted) != values.end();
}

// What is alive at each step of an order, all of whose operators run after those that they wait for.
inline Values literal_steps(const Fields& fields, const Values& order) {
  const auto count = static_cast<std::int64_t>(order.size());
  const std::size_t classes = fields.size.size();
  Values first(classes, -1);
  Values last(classes, -1);
  std::vector<bool> took(classes, false);
  std::int64_t held = 0;  // by bodies that are done
  Values steps;
  for (std::int64_t t = 0; t < count; ++t) {
    const auto k = static_cast<std::size_t>(order[static_cast<std::size_t>(t)]);
    for (const std::int64_t c : fields.writes[k])
      first[static_cast<std::size_t>(c)] = last[static_cast<std::size_t>(c)] = t;
    for (const std::int64_t c : fields.reads[k]) last[static_cast<std::size_t>(c)] = t;
  }
  for (const std::int64_t c : fields.kept) last[static_cast<std::size_t>(c)] = count;
  for (std::int64_t t = 0; t < count; ++t) {
    const auto k = static_cast<std::size_t>(order[static_cast<std::size_t>(t)]);
    std::int64_t shared = 0;
    bool found = false;
    for (const std::int64_t taken : fields.over[k]) {
      const auto c = static_cast<std::size_t>(taken);
      bool later = false;
      for (std::int64_t u = t + 1; u < count; ++u) {
        later = later || has(fields.reads[static_cast<std::size_t>(order[static_cast<std::size_t>(u)])], taken);
      }
      if (later) continue;
      found = !has(fields.guarded, taken) || took[c];
      shared = found ? fields.size[c] : 0;
      break;
    }
    for (const std::int64_t written : fields.writes[k]) {
      const bool takes = found && written == fields.writes[k].front();
      took[static_cast<std::size_t>(written)] = takes;
      if (has(fields.lingers, written) && !takes) last[static_cast<std::size_t>(written)] = count;
    }
    std::int64_t during = held + fields.own[k] - shared;
    std::int64_t before = held + fields.early[k] + fields.inside[k];
    std::int64_t older = held;
    for (std::size_t c = 0; c < classes; ++c) {
      const bool present = has(fields.start, static_cast<std::int64_t>(c));
      if (!(present || first[c] >= 0) || first[c] > t || last[c] < t) continue;
      during += fields.size[c];
      before += first[c] < t ? fields.size[c] : 0;
      older += first[c] < t ? fields.size[c] : 0;
    }
    steps.push_back(std::max(during, before));
    if (t == 0 && fields.opening > 0) steps[0] = std::max(steps[0], older + fields.opening + fields.entry[k]);
    held += fields.leaves[k];
  }
  return steps;
}

// The most that is alive at once in an order.
inline std::int64_t literal_peak(const Fields& fields, const Values& order) {
  std::int64_t most = order.empty() ? fields.opening : 0;
  for (const std::int64_t c : fields.start) most += fields.size[static_cast<std::size_t>(c)];
  for (const std::int64_t step : literal_steps(fields, order)) most = std::max(most, step);
  return most;
}

// Calls `visit` with every order of the operators.
template <typename Visit>
void each_order(const Fields& fields, Values& order, const Visit& visit) {
  const auto count = static_cast<std::int64_t>(fields.before.size());
  if (static_cast<std::int64_t>(order.size()) == count) visit(order);
  for (std::int64_t k = 0; k < count; ++k) {
    const Values& before = fields.before[static_cast<std::size_t>(k)];
    if (has(order, k)) continue;
    if (!std::all_of(before.begin(), before.end(), [&](std::int64_t b) { return has(order, b); })) continue;
    order.push_back(k);
    each_order(fields, order, visit);
    order.pop_back();
  }
}

inline std::int64_t least_peak_of_all_orders(const Fields& fields) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Values order;
  each_order(fields, order, [&](const Values& all) { least = std::min(least, literal_peak(fields, all)); });
  return least;
}

// Whatever order comes first with random choices.
inline Values random_order(const Fields& fields, Random& random) {
  Values order;
  while (order.size() < fields.before.size()) {
    const std::int64_t k = random.below(static_cast<std::int64_t>(fields.before.size()));
    const Values& before = fields.before[static_cast<std::size_t>(k)];
    const bool waits = !std::all_of(before.begin(), before.end(), [&](std::int64_t b) { return has(order, b); });
    if (!has(order, k) && !waits) order.push_back(k);
  }
  return order;
}

// Up to `most` operators. With `rules`, some of every kind: in place, guarded, unread, bodies, workspace, inputs.
inline Fields random_fields(Random& random, std::int64_t most, bool rules) {
  Fields made;
  const std::int64_t count = 1 + random.below(most);
  const std::int64_t largest = random.below(2) == 0 ? 5 : 60;
  const std::int64_t guarded = 1 + random.below(4);
  std::vector<std::int64_t> writer;  // of each class, -1: alive from the beginning
  std::vector<std::int64_t> readers;
  const auto add_class = [&](std::int64_t size, std::int64_t by) {
    made.size.push_back(size);
    writer.push_back(by);
    readers.push_back(0);
    return static_cast<std::int64_t>(made.size.size()) - 1;
  };
  for (std::int64_t inputs = 1 + random.below(2); inputs > 0; --inputs) add_class(1 + random.below(largest), -1);
  const auto rarely = [&](std::int64_t chance) { return rules && random.below(chance) == 0; };
  for (std::int64_t k = 0; k < count; ++k) {
    Values before;
    Values reads;
    Values over;
    const auto wait_for = [&](std::int64_t b) {
      if (b >= 0 && !has(before, b)) before.push_back(b);
    };
    const auto known = static_cast<std::int64_t>(made.size.size());
    for (std::int64_t inputs = 1 + random.below(3); inputs > 0; --inputs) {
      const std::int64_t c =
          random.below(3) == 0 ? random.below(known) : known - 1 - random.below(std::min<std::int64_t>(known, 5));
      if (has(reads, c)) continue;
      reads.push_back(c);
      ++readers[static_cast<std::size_t>(c)];
      wait_for(writer[static_cast<std::size_t>(c)]);
    }
    if (k > 0 && random.below(8) == 0) wait_for(random.below(k));
    const bool in_place = rules && random.below(2) == 0;
    const std::int64_t like = made.size[static_cast<std::size_t>(reads.front())];
    Values writes{add_class(in_place ? like : 1 + random.below(largest), k)};
    for (const std::int64_t c : reads) {
      if (in_place && made.size[static_cast<std::size_t>(c)] == like) over.push_back(c);
    }
    if (random.below(5) == 0) writes.push_back(add_class(1 + random.below(largest), k));
    std::sort(before.begin(), before.end());
    std::int64_t born = 0;
    for (const std::int64_t c : writes) born += made.size[static_cast<std::size_t>(c)];
    made.before.push_back(before);
    made.reads.push_back(reads);
    made.writes.push_back(writes);
    made.over.push_back(over);
    made.own.push_back(rarely(4) ? random.below(largest) : 0);
    made.inside.push_back(rarely(6) ? random.below(largest) : 0);
    made.early.push_back(rarely(6) ? random.below(born + 1) : 0);
    made.leaves.push_back(rarely(10) ? random.below(5) : 0);
    made.entry.push_back(made.own.back() + born);
  }
  for (std::size_t c = 0; c < made.size.size(); ++c) {
    const auto number = static_cast<std::int64_t>(c);
    const bool keeps = random.below(8) == 0;
    if (keeps) made.kept.push_back(number);
    if (writer[c] < 0 && (keeps || readers[c] > 0)) made.start.push_back(number);
    if (readers[c] == 0 && !keeps && writer[c] >= 0 && rarely(2)) made.lingers.push_back(number);
    if (rarely(guarded)) made.guarded.push_back(number);
  }
  made.opening = rarely(5) ? 1 + random.below(largest) : 0;
  return made;
}
