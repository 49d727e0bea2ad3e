// The search for related records and its lower bound, against all plans of few records.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "planner/offsets/related/bound.h"
#include "planner/offsets/related/conflicts.h"
#include "planner/offsets/related/search.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using edgemem::SearchLimits;
using edgemem::SearchResult;
using edgemem::Stop;
using edgemem::related::Relations;
using edgemem::related::Value;

struct Related {
  Instance instance;
  Values overlap{}, within{}, roles{};

  Relations relations() const { return {overlap, within, roles}; }
  std::size_t count() const { return instance.count(); }

  bool lies_in(std::size_t inner, std::size_t outer) const {
    for (std::size_t k = 0; k < within.size(); k += 3) {
      if (within[k] != static_cast<Value>(inner)) continue;
      const auto next = static_cast<std::size_t>(within[k + 1]);
      return next == outer || lies_in(next, outer);
    }
    return false;
  }

  // The outermost record that this one lies in.
  std::size_t root(std::size_t record) const {
    for (std::size_t i = 0; i < count(); ++i) {
      if (i != record && lies_in(record, i)) return root(i);
    }
    return record;
  }

  // Whether the two hold parts of one value. With a pinned record in the nest they may still share bytes only where one
  // lies inside the other: records that cannot be so have no plan.
  bool are_one(std::size_t a, std::size_t b) const {
    if (lies_in(a, b) || lies_in(b, a)) return true;
    for (std::size_t i = 0; i < count(); ++i) {
      if (instance.pin_of(i) >= 0 && root(i) == root(a)) return false;
    }
    return root(a) == root(b);
  }

  // Whether records a and b may both be where they are.
  bool are_apart(std::size_t a, std::size_t b, const Values& at) const {
    if (!instance.conflict(a, b) || are_one(a, b)) return true;
    if (at[a] + instance.size[a] <= at[b] || at[b] + instance.size[b] <= at[a]) return true;
    for (std::size_t k = 0; k < overlap.size(); k += 3) {
      const auto i = static_cast<std::size_t>(overlap[k]);
      const auto j = static_cast<std::size_t>(overlap[k + 1]);
      if (((i == a && j == b) || (i == b && j == a)) && at[i] - at[j] >= overlap[k + 2]) return true;
    }
    return false;
  }

  bool is_right(std::size_t i, const Values& at) const {
    if (instance.pin_of(i) >= 0 && at[i] != instance.pin_of(i)) return false;
    for (std::size_t k = 0; k < within.size(); k += 3) {
      const auto inner = static_cast<std::size_t>(within[k]);
      const auto outer = static_cast<std::size_t>(within[k + 1]);
      if (std::max(inner, outer) == i && at[inner] != at[outer] + within[k + 2]) return false;
    }
    for (std::size_t k = 0; k < instance.reserved.size(); k += 2) {
      if (at[i] < instance.reserved[k + 1] && instance.reserved[k] < at[i] + instance.size[i]) return false;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!are_apart(j, i, at)) return false;
    }
    return true;
  }

  // Sets each record to every offset that leaves the arena below the best one. kNone: there is no plan.
  Value optimum() const {
    Values at(count(), 0);
    Value best = kNone;
    Value most = 16 + std::accumulate(instance.size.begin(), instance.size.end(), Value{0});
    for (const Value end : instance.reserved) most += end;
    const std::function<void(std::size_t, Value)> place = [&](std::size_t i, Value top) {
      if (top >= best) return;
      if (i == count()) {
        best = top;
        return;
      }
      for (at[i] = 0; at[i] + instance.size[i] < std::min(best, most); at[i] += instance.alignment) {
        if (is_right(i, at)) place(i + 1, std::max(top, at[i] + instance.size[i]));
      }
    };
    place(0, 0);
    return best;
  }

  static constexpr Value kNone = std::numeric_limits<Value>::max();
};

Related random_related(Random& random) {
  Related made;
  Instance& records = made.instance;
  records.alignment = random.below(3) == 0 ? 2 : 1;
  const std::size_t count = static_cast<std::size_t>(1 + random.below(5));
  const bool is_cut = random.below(3) == 0;  // all but the first are more often slices of it, which outlive it
  for (std::size_t i = 0; i < count; ++i) {
    const Value first = random.below(is_cut ? 2 : 4);
    const bool is_pinned = random.below(8) == 0;
    const Value bytes = 1 + random.below(5) + (is_cut && i == 0 ? 2 : 0);
    records.add(first, first + random.below(3), bytes, is_pinned ? random.below(3) * 2 : -1);
    made.roles.push_back(random.below(3) - 1);
  }
  if (random.below(4) == 0) records.reserved = {2, 4};
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const bool has_one = records.first[i] == records.last[i] || records.first[j] == records.last[j];
      if (i == j || has_one || records.last[i] != records.first[j] || random.below(3) == 0) continue;
      made.overlap.insert(made.overlap.end(), {static_cast<Value>(i), static_cast<Value>(j), random.below(8) - 3});
    }
    const auto outer = static_cast<std::size_t>(is_cut ? 0 : random.below(static_cast<Value>(count)));
    const Value room = records.size[outer] - records.size[i];
    if (outer >= i || room < 0 || !records.conflict(i, outer) || random.below(2) == 0) continue;
    const Value delta = random.below(room + 1) & -records.alignment;
    made.within.insert(made.within.end(), {static_cast<Value>(i), static_cast<Value>(outer), delta});
  }
  return made;
}

SearchResult search(const Related& related, std::int64_t work = 200'000, std::uint64_t seed = 1) {
  const SearchLimits limits{work, seed, {}, 1, {}};
  const edgemem::Records records = related.instance.records();
  SearchResult found = edgemem::related::search(records, related.relations(), limits);
  CHECK(found.size == arena_of(related.instance, found.offsets) && found.bound <= found.size);
  for (std::size_t i = 0; i < related.count(); ++i) CHECK(related.is_right(i, found.offsets));
  return found;
}

// Stripes that each keep a tail for the next one, with inputs that die in what is made of them.
Related chain(std::size_t stripes, std::size_t layers) {
  Related made;
  Instance& records = made.instance;
  records.alignment = 16;
  const auto width = [](std::size_t layer) { return static_cast<Value>(64 + 48 * (layer * 5 % 7)); };
  Value op = 0;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    for (std::size_t layer = 0; layer < layers; ++layer, ++op) {
      records.add(op, op + 1, 4 * width(layer));
      made.roles.push_back(static_cast<Value>(layer));
      if (layer > 0) {
        const Value made_here = static_cast<Value>(records.count()) - 1;
        const Value input = made_here - 2;
        made.overlap.insert(made.overlap.end(), {input, made_here, width(layer)});
      }
      // The tail lives until the next stripe is here.
      records.add(op, op + static_cast<Value>(layers), width(layer));
      made.roles.push_back(static_cast<Value>(layers + layer));
    }
  }
  return made;
}

TEST(related_plans_of_few_records_are_the_best) {
  Random random(41);
  const int most = rounds(1'000);
  int planned = 0;
  for (int round = 0; round < most; ++round) {
    const Related related = random_related(random);
    const Value best = related.optimum();
    if (best == Related::kNone) continue;
    ++planned;
    CHECK(edgemem::related::lower_bound(related.instance.records(), related.relations()) <= best);
    const SearchResult found = search(related);
    CHECK(found.size == best && found.optimal());
    CHECK(found.stopped == Stop::kBound || found.stopped == Stop::kProof);
  }
  CHECK(planned > most / 4);
}

TEST(related_plans_depend_on_nothing_but_what_is_given) {
  const Related related = chain(12, 6);
  const SearchResult found = search(related, 50'000);
  const SearchResult again = search(related, 50'000);
  CHECK(found.offsets == again.offsets && found.work == again.work && found.bound == again.bound);
  CHECK(search(related, 50'000, 7).size <= search(related, 1).size);
  CHECK(found.bound == edgemem::related::lower_bound(related.instance.records(), related.relations()));
}

TEST(related_plans_with_roles_are_right_and_near_the_bound) {
  for (std::size_t layers = 2; layers < 9; ++layers) {
    Related related = chain(10, layers);
    CHECK(search(related).size * 4 <= search(related).bound * 5);
    related.roles.clear();
    CHECK(search(related).size * 4 <= search(related).bound * 5);
  }
}

TEST(related_searches_end_in_time_and_by_what_the_caller_throws) {
  const Related related = chain(40, 12);
  const edgemem::Records records = related.instance.records();
  SearchLimits limits{std::numeric_limits<std::int64_t>::max(), 1, 0.05, 1, {}};
  const SearchResult found = edgemem::related::search(records, related.relations(), limits);
  CHECK(found.optimal() || found.stopped == Stop::kTime);
  limits.seconds.reset();
  limits.poll = [] { throw std::runtime_error("enough"); };
  bool ended = found.optimal();
  try {
    edgemem::related::search(records, related.relations(), limits);
  } catch (const std::runtime_error&) {
    ended = true;
  }
  CHECK(ended);
}

TEST(relations_that_no_records_can_have_are_refused) {
  Related related;
  related.instance.add(0, 1, 4);
  related.instance.add(1, 2, 4);
  related.instance.add(2, 2, 2);
  const auto refuse = [&](const Values& overlap, const Values& within, const Values& roles = {}) {
    related.overlap = overlap;
    related.within = within;
    related.roles = roles;
    CHECK_REFUSED(edgemem::related::search(related.instance.records(), related.relations(), {}));
  };
  refuse({0, 1}, {});
  refuse({0, 3, 0}, {});
  refuse({0, 2, 0}, {});
  refuse({1, 1, 0}, {});
  refuse({0, 1, std::numeric_limits<Value>::max()}, {});
  refuse({}, {2, 1, 3});
  refuse({}, {2, 1, -1});
  refuse({}, {2, 1, 0, 2, 0, 0});
  refuse({}, {0, 1, 0, 1, 0, 0});
  refuse({}, {}, {0});
  related = {};
  related.instance.add(0, 0, 4, 0);
  related.instance.add(0, 0, 2, 3);
  refuse({}, {1, 0, 1});
}

TEST(more_pairs_than_memory_may_hold_are_refused) {
  Related related;
  for (int i = 0; i < 40; ++i) related.instance.add(0, 3, 8);
  edgemem::Poll poll;
  const auto find = [&](std::size_t most) {
    return edgemem::related::forbidden_pairs(related.instance.records(), related.relations(), poll, most).size();
  };
  CHECK(find(780) == 780);
  bool refused = false;
  try {
    find(779);
  } catch (const std::length_error&) {
    refused = true;
  }
  CHECK(refused);
}

TEST(nothing_to_place_takes_nothing) {
  Related related;
  CHECK(search(related).size == 0);
  related.instance.add(0, 3, 0);
  CHECK(search(related).size == 0);
}

}  // namespace
