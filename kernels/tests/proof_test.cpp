// The proof of plans against every pair of records at every operator, on right plans and on broken ones.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "proof/bounds.h"
#include "proof/objects.h"
#include "proof/offsets.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using namespace edgemem::proof;
using Values = std::vector<Value>;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  Value below(Value limit) { return static_cast<Value>(engine_() % static_cast<std::uint64_t>(limit)); }

 private:
  std::mt19937_64 engine_;
};

struct Plan {
  Values first, last, size, offsets, overlap, within;
  Value alignment = 1;

  std::size_t count() const { return first.size(); }
  Records records() const { return {first, last, size, alignment, {}, {}, overlap, within}; }
  Value arena() const {
    Value top = 0;
    for (std::size_t i = 0; i < count(); ++i) top = std::max(top, size[i] > 0 ? offsets[i] + size[i] : 0);
    return top;
  }
  void add(Value f, Value l, Value s, Value offset) {
    first.push_back(f);
    last.push_back(l);
    size.push_back(s);
    offsets.push_back(offset);
  }
  Values faults(Value arena) const { return find_offset_faults(records(), {offsets, {&arena, 1}}); }
};

// Whether a row of `within` from i leads to j, by one that holds or by a chain of such.
bool inside(const Plan& plan, std::size_t i, std::size_t j) {
  for (std::size_t k = 0; k < plan.within.size(); k += 3) {
    const auto outer = static_cast<std::size_t>(plan.within[k + 1]);
    if (static_cast<std::size_t>(plan.within[k]) != i) continue;
    if (plan.offsets[i] != plan.offsets[outer] + plan.within[k + 2]) return false;
    if (plan.within[k + 2] + plan.size[i] > plan.size[outer]) return false;
    return outer == j || inside(plan, outer, j);
  }
  return false;
}

bool allowed(const Plan& plan, std::size_t i, std::size_t j) {
  for (std::size_t k = 0; k < plan.overlap.size(); k += 3) {
    const auto a = static_cast<std::size_t>(plan.overlap[k]);
    const auto b = static_cast<std::size_t>(plan.overlap[k + 1]);
    if ((a == i && b == j) || (a == j && b == i)) {
      if (plan.offsets[a] - plan.offsets[b] >= plan.overlap[k + 2]) return true;
    }
  }
  return false;
}

bool conflict(const Plan& plan, std::size_t i, std::size_t j) {
  if (plan.first[i] > plan.last[j] || plan.first[j] > plan.last[i]) return false;
  const Value low = std::max(plan.offsets[i], plan.offsets[j]);
  if (low >= std::min(plan.offsets[i] + plan.size[i], plan.offsets[j] + plan.size[j])) return false;
  return !inside(plan, i, j) && !inside(plan, j, i) && !allowed(plan, i, j);
}

// Records that lie anywhere, but those inside others mostly where they should.
Plan random_plan(Random& random, bool related) {
  Plan plan;
  plan.alignment = random.below(3) == 0 ? 4 : 1;
  const Value operators = 1 + random.below(8);
  const Value room = 1 + random.below(60);
  const std::size_t count = static_cast<std::size_t>(1 + random.below(10));
  std::vector<bool> made(count, false), read(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const Value first = random.below(operators);
    const Value last = std::min(operators - 1, first + random.below(operators));
    plan.add(first, last, random.below(12), random.below(room) * plan.alignment);
    if (!related || i == 0) continue;
    const Value other = random.below(static_cast<Value>(i));
    const auto j = static_cast<std::size_t>(other);
    if (random.below(3) == 0) {
      plan.size[i] = std::min(plan.size[i], plan.size[j]);
      const Value delta = random.below(plan.size[j] - plan.size[i] + 1) & -plan.alignment;
      plan.within.insert(plan.within.end(), {static_cast<Value>(i), other, delta});
      if (random.below(8) > 0) plan.offsets[i] = plan.offsets[j] + delta;
    }
    const auto overlap = [&](std::size_t from, std::size_t to) {
      if (plan.last[from] != plan.first[to] || random.below(2) == 0) return;
      if (plan.first[from] == plan.last[from] && made[from]) return;
      if (plan.first[to] == plan.last[to] && read[to]) return;
      read[from] = made[to] = true;
      plan.overlap.insert(plan.overlap.end(), {static_cast<Value>(from), static_cast<Value>(to), random.below(10) - 4});
    };
    overlap(i, j);
    overlap(j, i);
  }
  return plan;
}

TEST(overlaps_are_those_of_all_pairs) {
  Random random(21);
  int right = 0;
  const int most = rounds(20'000);
  for (int round = 0; round < most; ++round) {
    const Plan plan = random_plan(random, round % 4 > 0);
    const Values rows = plan.faults(plan.arena());
    bool any = false;
    for (std::size_t i = 0; i < plan.count(); ++i) {
      for (std::size_t j = 0; j < i; ++j) any = any || conflict(plan, i, j);
    }
    bool found = false;
    for (std::size_t k = 0; k < rows.size(); k += Faults::kColumns) {
      if (rows[k] != static_cast<Value>(Cause::kOverlap)) continue;
      found = true;
      CHECK(conflict(plan, static_cast<std::size_t>(rows[k + 1]), static_cast<std::size_t>(rows[k + 2])));
    }
    CHECK(found == any);
    right += any ? 0 : 1;
  }
  CHECK(right > most / 100);
}

// Both bounds by their definitions; no pins.
std::pair<Value, Value> brute_bounds(const Plan& plan) {
  Value offsets = 0;
  std::vector<Values> profiles;
  const Records records = plan.records();
  Plan nested = plan;  // as if all rows of `within` held
  nested.offsets.assign(plan.count(), 0);
  for (std::size_t k = 0; k < plan.within.size(); k += 3) {
    const auto inner = static_cast<std::size_t>(plan.within[k]);
    nested.offsets[inner] = nested.offsets[static_cast<std::size_t>(plan.within[k + 1])] + plan.within[k + 2];
  }
  for (Value op = 0; op <= *std::max_element(plan.last.begin(), plan.last.end()); ++op) {
    std::vector<std::size_t> alive;
    Values sizes;
    for (std::size_t i = 0; i < plan.count(); ++i) {
      if (plan.first[i] > op || plan.last[i] < op || plan.size[i] == 0) continue;
      alive.push_back(i);
      sizes.push_back(plan.size[i]);
    }
    std::sort(sizes.rbegin(), sizes.rend());
    profiles.push_back(sizes);
    std::vector<bool> counts(plan.count(), false);
    Value need = 0;
    Value padding = 0;
    for (const std::size_t i : alive) {
      counts[i] = std::none_of(alive.begin(), alive.end(), [&](std::size_t j) { return inside(nested, i, j); });
      if (!counts[i]) continue;
      need += records.padded(i);
      padding = std::max(padding, records.padded(i) - plan.size[i]);
    }
    for (std::size_t k = 0; k < plan.overlap.size(); k += 3) {
      const auto i = static_cast<std::size_t>(plan.overlap[k]);
      const auto j = static_cast<std::size_t>(plan.overlap[k + 1]);
      if (!counts[i] || !counts[j] || plan.first[j] != op) continue;
      Value shared = 0;
      for (Value at = -64; at <= 64; at += plan.alignment) {
        if (at < plan.overlap[k + 2]) continue;
        shared = std::max(shared, std::min(at + records.padded(i), records.padded(j)) - std::max<Value>(at, 0));
      }
      need -= shared;
    }
    offsets = std::max(offsets, need - padding);
  }
  Value objects = 0;
  for (std::size_t k = 0; k < plan.count(); ++k) {
    Value largest = 0;
    for (const Values& sizes : profiles) largest = std::max(largest, k < sizes.size() ? sizes[k] : 0);
    objects += largest;
  }
  return {offsets, objects};
}

TEST(bounds_are_those_of_all_operators) {
  Random random(22);
  const int most = rounds(10'000);
  for (int round = 0; round < most; ++round) {
    const Plan plan = random_plan(random, round % 4 > 0);
    const auto [offsets, objects] = brute_bounds(plan);
    CHECK(offsets_bound(plan.records()) == offsets);
    CHECK(objects_bound(plan.records()) == objects);
    if (plan.faults(plan.arena()).empty()) CHECK(offsets <= plan.arena());
  }
}

TEST(objects_are_judged_as_all_pairs_are) {
  Random random(23);
  int right = 0;
  const int most = rounds(10'000);
  for (int round = 0; round < most; ++round) {
    const Plan plan = random_plan(random, false);
    const Value objects = 1 + random.below(static_cast<Value>(plan.count()));
    Values assignment(plan.count()), sizes(static_cast<std::size_t>(objects), 0);
    std::vector<bool> used(sizes.size(), false);
    for (std::size_t i = 0; i < plan.count(); ++i) {
      assignment[i] = random.below(objects);
      Value& size = sizes[static_cast<std::size_t>(assignment[i])];
      size = std::max(size, plan.size[i]);
      used[static_cast<std::size_t>(assignment[i])] = true;
    }
    if (random.below(4) == 0) ++sizes[static_cast<std::size_t>(random.below(objects))];
    bool wrong = std::find(used.begin(), used.end(), false) != used.end();
    Values need(sizes.size(), 0);
    for (std::size_t i = 0; i < plan.count(); ++i) {
      Value& most_needed = need[static_cast<std::size_t>(assignment[i])];
      most_needed = std::max(most_needed, plan.size[i]);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = plan.first[i] <= plan.last[j] && plan.first[j] <= plan.last[i];
        wrong = wrong || (together && assignment[i] == assignment[j]);
      }
    }
    wrong = wrong || need != sizes;
    CHECK(!find_object_faults({plan.first, plan.last, plan.size, 1}, {assignment, sizes, 1}).empty() == wrong);
    right += wrong ? 0 : 1;
  }
  CHECK(right > most / 100);
}

// Would take hours if any of it were quadratic.
TEST(a_proof_of_many_records_alive_at_once_ends) {
  constexpr std::size_t kCount = 300'000;
  for (const bool chained : {false, true}) {
    Plan plan;
    for (std::size_t i = 0; i < kCount; ++i) {
      const Value k = static_cast<Value>(i);
      // Intervals inside each other; one beside the other in the arena, or one inside the other.
      plan.add(k, 2 * static_cast<Value>(kCount) - k, chained ? static_cast<Value>(kCount) - k : 1, k);
      if (chained && i > 0) plan.within.insert(plan.within.end(), {k, k - 1, 1});
    }
    CHECK(plan.faults(plan.arena()).empty());
    CHECK(offsets_bound(plan.records()) == static_cast<Value>(kCount));
    CHECK(objects_bound(plan.records()) == std::accumulate(plan.size.begin(), plan.size.end(), Value{0}));
  }
}

TEST(a_bound_of_pinned_records_in_one_another_ends) {
  constexpr std::size_t kCount = 200'000;
  std::vector<Value> first(kCount), last(kCount, kCount), size(kCount), pinned(kCount, 0), within;
  for (std::size_t i = 0; i < kCount; ++i) {
    first[i] = static_cast<Value>(i % 7);
    size[i] = static_cast<Value>(kCount - i);
    if (i > 0) within.insert(within.end(), {static_cast<Value>(i), static_cast<Value>(i) - 1, 0});
  }
  const edgemem::proof::Records records{first, last, size, 1, pinned, {}, {}, within};
  CHECK(offsets_bound(records) == static_cast<Value>(kCount));
}

TEST(offsets_at_the_ends_of_int64_are_judged) {
  constexpr Value kLeast = std::numeric_limits<Value>::min();
  const auto causes = [](const Plan& plan, Value arena) {
    const Values rows = plan.faults(arena);
    Values found;
    for (std::size_t k = 0; k < rows.size(); k += Faults::kColumns) found.push_back(rows[k]);
    return found;
  };
  const auto list = [](std::initializer_list<Cause> all) {
    Values found;
    for (const Cause cause : all) found.push_back(static_cast<Value>(cause));
    return found;
  };
  Plan plan;
  plan.add(0, 0, 8, kLargest - 4);
  plan.add(0, 0, 8, kLargest);
  CHECK(causes(plan, kLargest) == list({Cause::kOutsideArena, Cause::kOutsideArena, Cause::kOverlap}));
  plan.offsets = {kLeast, kLargest};
  CHECK(causes(plan, kLeast) == list({Cause::kNegativeOffset, Cause::kOutsideArena, Cause::kOutsideArena}));
  plan.offsets = {kLargest - 8, kLeast};
  for (const Value distance : {kLeast, Value{-1}, Value{1}, kLargest}) {
    plan.overlap = {0, 1, distance};
    CHECK(causes(plan, kLargest) == list({Cause::kNegativeOffset}));
  }
}

TEST(relations_that_no_records_have_are_refused) {
  Plan plan;
  plan.add(0, 1, 4, 0);
  plan.add(1, 1, 4, 4);
  plan.add(1, 2, 4, 8);
  const auto refuse = [&](const Values& overlap, const Values& within) {
    plan.overlap = overlap;
    plan.within = within;
    CHECK_REFUSED(offsets_bound(plan.records()));
    CHECK_REFUSED(plan.faults(12));
  };
  refuse({0, 1}, {});
  refuse({0, 3, 0}, {});
  refuse({2, 0, 0}, {});
  refuse({0, 1, 0, 1, 2, 0}, {});
  refuse({}, {1, 1, 0});
  refuse({}, {-1, 1, 0});
  refuse({}, {0, 1, 0, 0, 2, 0});
  refuse({}, {0, 1, 0, 1, 0, 0});
  plan.overlap = {0, 1, 0};
  plan.within = {};
  CHECK(plan.faults(12).empty());
}

}  // namespace
