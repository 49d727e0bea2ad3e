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
#include "tests/proved_plan.h"
#include "tests/registry.h"
#include "tests/rounds.h"

namespace {

using namespace edgemem::proof;
using Plan = ProvedPlan;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  Value below(Value limit) { return static_cast<Value>(engine_() % static_cast<std::uint64_t>(limit)); }

 private:
  std::mt19937_64 engine_;
};

// Whether the row of `within` from a record holds.
bool holds(const Plan& plan, std::size_t k) {
  const auto inner = static_cast<std::size_t>(plan.within[k]);
  const auto outer = static_cast<std::size_t>(plan.within[k + 1]);
  return plan.offsets[inner] == plan.offsets[outer] + plan.within[k + 2] &&
         plan.within[k + 2] + plan.size[inner] <= plan.size[outer];
}

// Whether a row of `within` from i leads to j, by one that holds or by a chain of such.
bool inside(const Plan& plan, std::size_t i, std::size_t j) {
  for (std::size_t k = 0; k < plan.within.size(); k += 3) {
    const auto outer = static_cast<std::size_t>(plan.within[k + 1]);
    if (static_cast<std::size_t>(plan.within[k]) != i) continue;
    return holds(plan, k) && (outer == j || inside(plan, outer, j));
  }
  return false;
}

// Whether rows that hold lead from both to one record, or from one to the other.
bool one_nest(const Plan& plan, std::size_t i, std::size_t j) {
  const auto leads = [&](std::size_t from, std::size_t to) { return from == to || inside(plan, from, to); };
  for (std::size_t k = 0; k < plan.count(); ++k) {
    if (leads(i, k) && leads(j, k)) return true;
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
  return !one_nest(plan, i, j) && !allowed(plan, i, j);
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

// Bytes, each of which one of its options may take; an option takes so many. How many can be taken, by augmenting
// paths.
Value taken(const std::vector<std::vector<std::size_t>>& options, const std::vector<std::size_t>& room) {
  std::vector<std::vector<std::size_t>> bytes(room.size());
  std::vector<bool> tried;
  const auto give = [&](const auto& self, std::size_t byte) -> bool {
    for (const std::size_t x : options[byte]) {
      if (tried[x]) continue;
      tried[x] = true;
      if (bytes[x].size() < room[x]) {
        bytes[x].push_back(byte);
        return true;
      }
      for (std::size_t& other : bytes[x]) {
        if (!self(self, other)) continue;
        other = byte;
        return true;
      }
    }
    return false;
  };
  Value count = 0;
  for (std::size_t byte = 0; byte < options.size(); ++byte) {
    tried.assign(room.size(), false);
    count += give(give, byte) ? 1 : 0;
  }
  return count;
}

// The most bytes that inputs and results which count can have in common, record by record and byte by byte; `nested` as
// if all rows held.
Value common_bytes(const Plan& nested, Value op, const std::vector<bool>& counts) {
  const Records records = nested.records();
  std::vector<bool> mentioned(nested.count(), false);
  const auto each = [&](const auto& use) {
    for (std::size_t k = 0; k < nested.overlap.size(); k += 3) {
      const auto i = static_cast<std::size_t>(nested.overlap[k]);
      const auto j = static_cast<std::size_t>(nested.overlap[k + 1]);
      if (nested.first[j] == op && nested.size[i] > 0 && nested.size[j] > 0) use(i, j, nested.overlap[k + 2]);
    }
  };
  each([&](std::size_t i, std::size_t j, Value) { mentioned[i] = mentioned[j] = true; });
  const auto is_own = [&](std::size_t i, Value byte) {
    const Value at = nested.offsets[i] + byte;
    for (std::size_t k = 0; k < nested.count(); ++k) {
      const bool holds = nested.offsets[k] <= at && at < nested.offsets[k] + records.padded(k) && inside(nested, k, i);
      if (holds && !mentioned[k] && nested.first[k] <= op && op <= nested.last[k]) return false;
    }
    return true;
  };
  std::vector<std::size_t> room(nested.count(), 0);
  for (std::size_t i = 0; i < nested.count(); ++i) {
    for (Value byte = 0; byte < records.padded(i); ++byte) room[i] += is_own(i, byte) ? 1 : 0;
  }
  Value by_results = 0;
  Value by_inputs = 0;
  for (std::size_t x = 0; x < nested.count(); ++x) {
    std::vector<std::vector<std::size_t>> of_results, of_inputs;
    for (Value byte = 0; byte < records.padded(x); ++byte) {
      if (!is_own(x, byte)) continue;
      of_results.emplace_back();
      of_inputs.emplace_back();
      each([&](std::size_t i, std::size_t j, Value distance) {
        if (!counts[i] || !counts[j] || one_nest(nested, i, j)) return;
        while (distance % records.alignment != 0) ++distance;
        if (j == x && byte >= distance) of_results.back().push_back(i);
        if (i == x && byte < records.padded(j) - distance) of_inputs.back().push_back(j);
      });
    }
    by_results += taken(of_results, room);
    by_inputs += taken(of_inputs, room);
  }
  return std::min(by_results, by_inputs);
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
      // Bytes that something alive of the same nest takes as well count for that.
      for (Value byte = nested.offsets[i]; byte < nested.offsets[i] + records.padded(i); ++byte) {
        need += std::none_of(alive.begin(), alive.end(), [&](std::size_t j) {
          return j < i && one_nest(nested, i, j) && nested.offsets[j] <= byte &&
                 byte < nested.offsets[j] + records.padded(j);
        });
      }
      if (!counts[i]) continue;
      padding = std::max(padding, records.padded(i) - plan.size[i]);
    }
    need -= common_bytes(nested, op, counts);
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
