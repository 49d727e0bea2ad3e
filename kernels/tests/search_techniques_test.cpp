// Every technique of the offset search can be switched off: plans stay valid and proofs stay right.
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/offsets/breadth.h"
#include "planner/offsets/search/search.h"
#include "planner/offsets/search/techniques.h"
#include "tests/check.h"
#include "tests/instance.h"
#include "tests/registry.h"

namespace {

using edgemem::kTechniques;
using edgemem::NamedTechnique;
using edgemem::SearchLimits;
using edgemem::SearchResult;
using edgemem::Stop;
using edgemem::Techniques;

Techniques without(const NamedTechnique& technique) {
  Techniques techniques;
  techniques.*technique.enabled = false;
  return techniques;
}

Techniques none() {
  Techniques techniques;
  for (const NamedTechnique& technique : kTechniques) techniques.*technique.enabled = false;
  return techniques;
}

SearchResult search(const Instance& instance, std::int64_t work, const Techniques& techniques, int threads = 1) {
  SearchLimits limits;
  limits.work = work;
  limits.threads = threads;
  limits.techniques = techniques;
  SearchResult found = edgemem::search_offsets(instance.records(), limits);
  CHECK(is_valid(instance, found.offsets));
  CHECK(found.size == arena_of(instance, found.offsets));
  CHECK(found.bound <= found.size && found.bound >= edgemem::offset_lower_bound(instance.records()));
  CHECK(found.optimal() == (found.stopped == Stop::kBound || found.stopped == Stop::kProof));
  return found;
}

// Small problems of every kind, which the search with all techniques solves.
std::vector<Instance> small_instances() {
  Random random(31);
  std::vector<Instance> made{gap_instance(nullptr)};
  for (int k = 0; k < 60; ++k) {
    made.push_back(gap_instance(&random));
    made.push_back(random_small_instance(random, 9));
    made.push_back(random_pinned_instance(random, 1 + random.below(6), 2 + random.below(6)));
  }
  return made;
}

// Larger ones, which no search solves in so little work.
std::vector<Instance> large_instances() {
  Random random(32);
  std::vector<Instance> made;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    made.push_back(random_records(random, 120, 80, 20, 1000));
    made.push_back(random_pinned_instance(random, 150, 60));
    Instance& tiling = made.emplace_back();
    for (const Rectangle& r : random_tiling(80, seed)) tiling.add(r.begin, r.end - 1, r.high - r.low);
  }
  return made;
}

// A rectangle cut into pieces, of which every tenth is pinned where it was cut.
Instance pinned_tiling(std::size_t count, std::uint64_t seed) {
  Instance made;
  for (const Rectangle& r : random_tiling(count, seed)) {
    made.add(r.begin, r.end - 1, r.high - r.low, made.count() % 10 == 0 ? r.low : -1);
  }
  return made;
}

TEST(techniques_have_different_names) {
  for (const NamedTechnique& a : kTechniques) {
    for (const NamedTechnique& b : kTechniques) {
      CHECK((std::string_view(a.name) == b.name) == (a.enabled == b.enabled));
    }
  }
}

TEST(techniques_switched_off_one_by_one_leave_valid_plans_and_right_proofs) {
  for (const Instance& instance : small_instances()) {
    const SearchResult best = search(instance, 200'000, {});
    CHECK(best.optimal());
    for (const NamedTechnique& technique : kTechniques) {
      const SearchResult found = search(instance, 200'000, without(technique));
      CHECK(found.size >= best.size && found.bound <= best.size);
      // Only the searches below the goal prove bounds; all others but make them quicker.
      if (technique.enabled != &Techniques::plateau_searches) CHECK(found.optimal());
    }
    CHECK(search(instance, 200'000, none()).size >= best.size);
  }
}

TEST(techniques_switched_off_leave_valid_plans_of_large_problems) {
  for (const Instance& instance : large_instances()) {
    for (const NamedTechnique& technique : kTechniques) {
      const SearchResult once = search(instance, 20'000, without(technique));
      CHECK(search(instance, 20'000, without(technique)).offsets == once.offsets);
      CHECK(search(instance, 20'000, without(technique), 2).size <= once.size);
    }
    search(instance, 20'000, none());
  }
}

// What is switched off is not done: without its technique one of these takes other work, or has another plan.
TEST(techniques_make_a_difference) {
  Random random(33);
  std::vector<Instance> instances;
  for (int k = 0; k < 4; ++k) instances.push_back(random_records(random, 200, 60, 30, 1000));
  for (int k = 0; k < 4; ++k) instances.push_back(random_records(random, 150, 40, 25, 50));
  instances.push_back(pinned_tiling(80, 5));
  // With two threads, since the second begins with the rules that the first one tries later.
  std::vector<SearchResult> all;
  for (const Instance& instance : instances) all.push_back(search(instance, 100'000, {}, 2));
  for (const NamedTechnique& technique : kTechniques) {
    bool differs = false;
    for (std::size_t i = 0; i < instances.size() && !differs; ++i) {
      const SearchResult found = search(instances[i], 100'000, without(technique), 2);
      differs = found.work != all[i].work || found.offsets != all[i].offsets;
    }
    CHECK(differs);
  }
}

// Each of these kinds of search works without the others.
TEST(techniques_that_search_work_alone) {
  const Instance wall = [] {
    Instance made;
    for (const Rectangle& r : random_tiling(25, 4)) made.add(r.begin, r.end - 1, r.high - r.low);
    return made;
  }();
  for (const auto technique : {&Techniques::skyline_passes, &Techniques::plateau_searches, &Techniques::guessed_holes,
                               &Techniques::rising_ceilings}) {
    Techniques alone = none();
    alone.*technique = true;
    CHECK(search(wall, 300'000, alone).size < search(wall, 300'000, none()).size);
  }
}

}  // namespace
