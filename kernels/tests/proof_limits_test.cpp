// The proof of very many records, and of numbers at the ends of int64.
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <vector>

#include "proof/bounds.h"
#include "proof/offsets.h"
#include "tests/check.h"
#include "tests/proved_plan.h"
#include "tests/registry.h"

namespace {

using namespace edgemem::proof;
using Plan = ProvedPlan;

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

// Slices of one whole that share bytes with each other, most of them after the whole has ended.
TEST(a_proof_of_many_slices_that_share_bytes_ends) {
  constexpr std::size_t kCount = 200'000;
  Plan plan;
  plan.add(0, static_cast<Value>(kCount) / 2, kCount + 8, 0);
  for (std::size_t i = 1; i < kCount; ++i) {
    const Value k = static_cast<Value>(i);
    plan.add(k / 2, k / 2 + static_cast<Value>(kCount), 8, k);
    plan.within.insert(plan.within.end(), {k, 0, k});
  }
  CHECK(plan.faults(plan.arena() + 1).size() == Faults::kColumns);  // too large
  plan.size[0] = plan.arena();
  CHECK(offsets_bound(plan.records()) == plan.size[0]);
  plan.within.resize(plan.within.size() - 3);
  CHECK(!plan.faults(plan.arena()).empty());
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

}  // namespace
