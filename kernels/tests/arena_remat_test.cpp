// Programs under a budget through the C ABI: what a caller may get wrong, and forks.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "replay/edgemem_arena.h"
#include "replay/edgemem_remat.h"
#include "tests/arena_loops.h"
#include "tests/arena_process.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

constexpr std::int64_t kBudget = 1 << 20;
constexpr std::int64_t kUnknown = 1000;
constexpr unsigned kSeconds = 20;

// The storages of these tests are flags: whether they were emptied.
int32_t empty(void* storage, int64_t /*value*/) {
  *static_cast<bool*>(storage) = true;
  return 1;
}

int32_t stay(void* /*storage*/, void* /*from*/, void* /*to*/, int64_t /*bytes*/) { return 0; }

em_remat_rules rules_of_coop() {
  em_remat_rules rules{};
  rules.heuristic = 2;
  rules.search = 1;
  rules.in_place = 1;
  return rules;
}

class Remat {
 public:
  explicit Remat(std::int64_t budget = kBudget) {
    const em_remat_rules rules = rules_of_coop();
    remat_ = em_remat_create(budget, &rules, empty, stay, 0);
    CHECK(remat_ != nullptr);
    CHECK(em_remat_start(remat_) == EM_OK);
  }
  ~Remat() { em_remat_destroy(remat_); }
  Remat(const Remat&) = delete;
  Remat& operator=(const Remat&) = delete;

  operator em_remat*() const { return remat_; }

  // The result of a new call that reads nothing.
  std::int64_t made(std::int64_t bytes, bool* storage) const {
    void* block = take(bytes);
    CHECK(block != nullptr);
    em_remat_result result{-1, -1, block, storage};
    CHECK(em_remat_ran(remat_, 100, nullptr, 0, &result, 1) == EM_OK);
    return result.value;
  }

 private:
  em_remat* remat_;
};

}  // namespace

TEST(a_request_evicts_what_can_be_made_again) {
  bool is_empty = false;
  const Remat remat;
  const std::int64_t value = remat.made(kBudget / 2, &is_empty);
  void* block = take(kBudget - 64);
  CHECK(block != nullptr);
  CHECK(is_empty);
  CHECK(em_remat_is_resident(remat, value) == 0);
  CHECK(em_remat_is_recomputable(remat, value) == 1);
  CHECK(take(128) == nullptr);
  give(block);
}

TEST(values_that_are_not_known_are_refused) {
  const Remat remat;
  bool is_empty = false;
  const std::int64_t value = remat.made(640, &is_empty);
  for (const std::int64_t wrong : {kUnknown, std::int64_t{-1}, INT64_MIN}) {
    const int64_t* out = nullptr;
    void* block = take(64);
    em_remat_result result{-1, -1, block, &is_empty};
    CHECK(em_remat_lock(remat, &wrong, 1, 0) == -1);
    em_remat_unlock(remat, &wrong, 1);
    CHECK(em_remat_ran(remat, 1, &wrong, 1, &result, 1) == EM_REFUSED);
    CHECK(em_remat_ran(remat, 1, &wrong, 1, nullptr, 0) == EM_REFUSED);
    CHECK(em_remat_make_constant(remat, wrong) == -1);
    CHECK(em_remat_remade(remat, wrong, block, &is_empty) == EM_REFUSED);
    CHECK(em_remat_take_over(remat, wrong, value, &is_empty) == EM_REFUSED);
    CHECK(em_remat_take_over(remat, value, wrong, &is_empty) == EM_REFUSED);
    CHECK(em_remat_lend(remat, wrong, &is_empty) == nullptr);
    CHECK(em_remat_dependents(remat, wrong, &out) == -1);
    CHECK(em_remat_is_resident(remat, wrong) == 0);
    CHECK(em_remat_is_recomputable(remat, wrong) == 0);
    em_remat_pin(remat, wrong);
    em_remat_fix(remat, wrong);
    em_remat_repeated(remat, wrong, 1);
    em_remat_dropped(remat, wrong);
    give(block);
  }
  em_remat_unlock(remat, &value, 1);  // it is not locked
  CHECK(em_remat_lock(remat, &value, 1, 0) == 0);
  em_remat_unlock(remat, &value, 1);
  CHECK(em_remat_is_resident(remat, value) == 1);
}

TEST(a_call_that_cannot_take_memory_over_is_not_noted) {
  const Remat remat;
  bool is_empty = false;
  const std::int64_t value = remat.made(640, &is_empty);
  em_remat_result taking{-1, value, nullptr, nullptr};
  em_remat_stats before{};
  em_remat_stats_get(remat, &before);
  CHECK(em_remat_ran(remat, 1, &value, 1, &taking, 1) == EM_REFUSED);  // without a lock
  CHECK(em_remat_lock(remat, &value, 1, 0) == 0);
  CHECK(em_remat_lock(remat, &value, 1, 0) == 0);
  CHECK(em_remat_ran(remat, 1, &value, 1, &taking, 1) == EM_REFUSED);  // with a lock of another call
  em_remat_unlock(remat, &value, 1);
  CHECK(em_remat_is_resident(remat, value) == 1);
  CHECK(em_remat_ran(remat, 1, &value, 1, &taking, 1) == EM_OK);
  em_remat_unlock(remat, &value, 1);
  CHECK(em_remat_is_resident(remat, taking.value) == 1);
  em_remat_stats after{};
  em_remat_stats_get(remat, &after);
  CHECK(after.used == before.used);
}

TEST(a_block_that_is_given_back_twice_does_no_harm) {
  const Remat remat;
  void* block = take(640);
  give(block);
  give(block);
  CHECK(take(kBudget) != nullptr);
}

TEST(a_child_allocates_under_the_budget_and_after_it) {
  bool is_empty = false;
  void* block = nullptr;
  {
    const Remat remat;
    block = take(64);
    remat.made(kBudget / 2, &is_empty);
    CHECK(holds_in_child(
        [&] {
          void* mine = take(kBudget - 128);
          std::memset(mine, 1, kBudget - 128);
          give(mine);
          return is_empty && take(kBudget) == nullptr;
        },
        kSeconds));
    CHECK(!is_empty);
  }
  CHECK(holds_in_child(
      [block] {
        give(block);
        give(take(1000));
        return true;
      },
      kSeconds));
  give(block);
}

#ifdef __linux__
TEST(blocks_that_outlive_their_program_keep_few_addresses) {
  const std::int64_t before = mapped("VmSize");
  std::array<void*, 20> blocks{};
  for (void*& block : blocks) {
    const Remat remat;
    block = take(4096);
  }
  CHECK(mapped("VmSize") - before < 200 * kBudget);
  for (void* block : blocks) {
    give(block);
  }
  CHECK(mapped("VmSize") - before < 20 * kBudget);
}
#endif
