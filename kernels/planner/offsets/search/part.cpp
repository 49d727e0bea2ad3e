#include "planner/offsets/search/part.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "planner/offsets/pins.h"

namespace edgemem::offset_search {

namespace {

struct Lifetime {
  std::int32_t begin;
  std::int32_t end;
  std::size_t record;
};

// Computes the loads, the least tails and the bound of a part whose pieces are complete.
void measure(Part& part, Budget& budget) {
  const std::int32_t count = part.count();
  const auto sections = static_cast<std::size_t>(*std::max_element(part.end.begin(), part.end.end()));
  part.first.assign(sections + 1, 0);
  part.load.assign(sections + 1, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    ++part.first[static_cast<std::size_t>(part.begin[i]) + 1];
    part.load[static_cast<std::size_t>(part.begin[i])] += part.size[i];
    part.load[static_cast<std::size_t>(part.end[i])] -= part.size[i];
    budget.pass();
  }
  std::partial_sum(part.first.begin(), part.first.end(), part.first.begin());
  std::partial_sum(part.load.begin(), part.load.end(), part.load.begin());
  part.load.pop_back();

  // Pieces ascending by tail give it to the sections that have none yet; `open[t]` leads to the next such section.
  part.least_tail.assign(sections, 0);
  std::vector<std::int32_t> by_tail(static_cast<std::size_t>(count));
  std::iota(by_tail.begin(), by_tail.end(), 0);
  budget.sort(by_tail.begin(), by_tail.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int64_t tail_a = part.tail[static_cast<std::size_t>(a)];
    const std::int64_t tail_b = part.tail[static_cast<std::size_t>(b)];
    return tail_a != tail_b ? tail_a < tail_b : a < b;
  });
  std::vector<std::size_t> open(sections + 1);
  std::iota(open.begin(), open.end(), std::size_t{0});
  const auto next = [&](std::size_t t) {
    while (open[t] != t) t = open[t] = open[open[t]];
    return t;
  };
  for (const std::int32_t id : by_tail) {
    budget.pass();
    const auto i = static_cast<std::size_t>(id);
    const auto end = static_cast<std::size_t>(part.end[i]);
    for (std::size_t t = next(static_cast<std::size_t>(part.begin[i])); t < end; t = next(t)) {
      part.least_tail[t] = part.tail[i];
      open[t] = t + 1;
    }
  }
  for (std::size_t t = 0; t < sections; ++t) {
    part.bound = std::max(part.bound, (part.load[t] - 1) * part.unit + part.least_tail[t]);
  }
}

// Adds the pinned offsets, and a piece for each reserved range in each section, to a part with the pieces of all
// records.
void pin(const Records& records, Part& part, Budget& budget) {
  for (std::size_t k = 0; k < records.reserved.size(); k += 2) {
    part.reserved.push_back({records.reserved[k] / part.unit, records.reserved[k + 1] / part.unit});
  }
  const std::size_t count = part.record.size();
  const std::int32_t sections = *std::max_element(part.end.begin(), part.end.end());
  part.pinned.assign(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    if (records.is_pinned(part.record[i])) part.pinned[i] = records.pinned[part.record[i]] / part.unit;
  }
  std::vector<std::size_t> order(count + part.reserved.size() * static_cast<std::size_t>(sections));
  budget.pass(static_cast<std::int64_t>(order.size()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::int32_t t = 0; t < sections; ++t) {
    for (const Interval& range : part.reserved) {
      part.begin.push_back(t);
      part.end.push_back(t + 1);
      part.size.push_back(range.end - range.begin);
      part.tail.push_back(part.unit);
      part.life.push_back(1);
      part.record.push_back(Part::kNoRecord);
      part.pinned.push_back(range.begin);
    }
  }
  // Of equal lifetimes those that are pinned come first, so that the others stand together.
  budget.sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      return std::tuple(part.begin[i], part.end[i], part.pinned[i] < 0, part.size[i], part.tail[i], i);
    };
    return key(a) < key(b);
  });
  const auto arrange = [&](auto& column) {
    auto arranged = column;
    for (std::size_t i = 0; i < order.size(); ++i) arranged[i] = column[order[i]];
    column = std::move(arranged);
  };
  arrange(part.begin);
  arrange(part.end);
  arrange(part.size);
  arrange(part.tail);
  arrange(part.life);
  arrange(part.record);
  arrange(part.pinned);
}

Part make_part(const Records& records, std::vector<Lifetime>& lifetimes, Budget& budget) {
  Part part;
  const bool pins =
      !records.reserved.empty() || std::any_of(lifetimes.begin(), lifetimes.end(),
                                               [&](const Lifetime& life) { return records.is_pinned(life.record); });
  std::int64_t divisor = 0;
  for (const std::int64_t address : records.reserved) divisor = std::gcd(divisor, address / records.alignment);
  for (const Lifetime& life : lifetimes) {
    budget.pass();
    divisor = std::gcd(divisor, records.padded(life.record) / records.alignment);
    if (records.is_pinned(life.record)) divisor = std::gcd(divisor, records.pinned[life.record] / records.alignment);
    if (divisor == 1) break;
  }
  part.unit = divisor * records.alignment;
  budget.sort(lifetimes.begin(), lifetimes.end(), [&](const Lifetime& a, const Lifetime& b) {
    return std::tuple(a.begin, a.end, records.size[a.record], a.record) <
           std::tuple(b.begin, b.end, records.size[b.record], b.record);
  });
  const std::int32_t shift = lifetimes.front().begin;
  for (const Lifetime& life : lifetimes) {
    budget.pass();
    const std::size_t i = life.record;
    part.begin.push_back(life.begin - shift);
    part.end.push_back(life.end - shift);
    part.size.push_back(records.padded(i) / part.unit);
    part.tail.push_back(records.size[i] - (part.size.back() - 1) * part.unit);
    part.life.push_back(records.last[i] - records.first[i] + 1);
    part.record.push_back(i);
  }
  std::vector<std::size_t> ids;
  if (pins) {
    ids = part.record;
    pin(records, part, budget);
  }
  measure(part, budget);
  if (pins) part.bound = pinned_lower_bound(records, ids);
  return part;
}

}  // namespace

bool Part::identical(std::int32_t a, std::int32_t b) const {
  const auto i = static_cast<std::size_t>(a);
  const auto j = static_cast<std::size_t>(b);
  if (is_pinned(a) || is_pinned(b)) return false;
  return begin[i] == begin[j] && end[i] == end[j] && size[i] == size[j] && tail[i] == tail[j];
}

namespace {

// Calls `visit` with the lifetimes of each part's records, in sections counted from the start of the whole problem.
template <class Visit>
void visit_parts(const Records& records, Budget& budget, Visit visit) {
  std::vector<std::pair<std::int64_t, std::int32_t>> births;
  std::vector<std::pair<std::int64_t, std::int32_t>> deaths;
  std::vector<Lifetime> lifetimes;
  for (std::size_t i = 0; i < records.count(); ++i) {
    budget.pass();
    if (records.size[i] == 0) continue;
    births.emplace_back(records.first[i], static_cast<std::int32_t>(lifetimes.size()));
    deaths.emplace_back(records.last[i], static_cast<std::int32_t>(lifetimes.size()));
    lifetimes.push_back({0, 0, i});
  }
  budget.sort(births.begin(), births.end(), std::less<>());
  budget.sort(deaths.begin(), deaths.end(), std::less<>());
  std::vector<Lifetime> members;  // of the present part, those that have died
  std::int32_t section = 0;
  bool grown = false;  // since the last section was closed
  std::size_t born = 0;
  std::size_t died = 0;
  for (const auto& [last, id] : deaths) {
    budget.pass();
    for (; born < births.size() && births[born].first <= last; ++born) {
      lifetimes[static_cast<std::size_t>(births[born].second)].begin = section;
      grown = true;
    }
    if (grown) ++section;
    grown = false;
    Lifetime& life = lifetimes[static_cast<std::size_t>(id)];
    life.end = section;
    members.push_back(life);
    if (++died == born) {
      visit(members);
      members.clear();
    }
  }
}

void sort_by_bound(std::vector<Part>& parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.bound > b.bound; });
}

// Places records that are all alive at once end to end; returns the bytes that they take.
std::int64_t stack(const Records& records, const std::vector<Lifetime>& members, std::vector<std::int64_t>& offsets) {
  std::size_t top = members.front().record;
  const auto padding = [&](std::size_t i) { return records.padded(i) - records.size[i]; };
  for (const Lifetime& life : members) {
    if (padding(life.record) > padding(top)) top = life.record;
  }
  std::int64_t next = 0;
  for (const Lifetime& life : members) {
    if (life.record == top) continue;
    offsets[life.record] = next;
    next += records.padded(life.record);
  }
  offsets[top] = next;
  return next + records.size[top];
}

}  // namespace

std::vector<Part> split(const Records& records) {
  std::vector<Part> parts;
  Budget budget(0, std::nullopt);
  visit_parts(records, budget,
              [&](std::vector<Lifetime>& members) { parts.push_back(make_part(records, members, budget)); });
  sort_by_bound(parts);
  return parts;
}

Split split(const Records& records, Budget& budget) {
  Split made;
  made.offsets.assign(records.count(), 0);
  visit_parts(records, budget, [&](std::vector<Lifetime>& members) {
    // The record that ends first begins in the part's first section, and the one that ends last in its last section.
    const bool free =
        records.reserved.empty() && std::none_of(members.begin(), members.end(),
                                                 [&](const Lifetime& life) { return records.is_pinned(life.record); });
    if (free && members.back().end - members.front().begin == 1) {
      made.size = std::max(made.size, stack(records, members, made.offsets));
    } else {
      made.parts.push_back(make_part(records, members, budget));
    }
  });
  sort_by_bound(made.parts);
  return made;
}

Part split_finely(const Records& records, const Part& part, Budget& budget) {
  std::vector<std::int64_t> times;
  for (const std::size_t i : part.record) {
    times.push_back(records.first[i]);
    times.push_back(records.last[i] + 1);
  }
  budget.sort(times.begin(), times.end(), std::less<>());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto section = [&](std::int64_t time) {
    return static_cast<std::int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<Lifetime> lifetimes;
  for (const std::size_t i : part.record) {
    lifetimes.push_back({section(records.first[i]), section(records.last[i] + 1), i});
  }
  return make_part(records, lifetimes, budget);
}

std::vector<std::int64_t> end_to_end(const Part& part) {
  IntervalSet occupied;
  for (const Interval& range : part.reserved) occupied.insert(range);
  for (std::size_t i = 0; i < part.pinned.size(); ++i) {
    if (part.pinned[i] >= 0 && part.record[i] != Part::kNoRecord) {
      occupied.insert({part.pinned[i], part.pinned[i] + part.size[i]});
    }
  }
  return end_to_end_around(part.size, part.pinned, occupied);
}

std::int64_t peak(const Part& part, const std::vector<std::int64_t>& offsets) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (part.record[i] == Part::kNoRecord) continue;
    most = std::max(most, (offsets[i] + part.size[i] - 1) * part.unit + part.tail[i]);
  }
  return most;
}

}  // namespace edgemem::offset_search
