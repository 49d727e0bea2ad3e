// Sizes that no address space holds: every path answers null and changes nothing.
#include "tests/arena_runs.h"
#include "tests/registry.h"

namespace {
const size_t kImpossible[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 63, SIZE_MAX - 128, size_t{1} << 63, size_t{INT64_MAX},
                              size_t{INT64_MAX} - 127, size_t{INT64_MAX} - 128};
}

TEST(an_impossible_size_is_not_taken_for_the_free_that_a_plan_expects) {
  for (const size_t bytes : kImpossible) {
    Session session({{100, -1}, {0}, 100});
    session.begin();
    void* a = em_allocate(100);
    CHECK(em_allocate(bytes) == nullptr);  // SIZE_MAX read as int64_t is -1, the code of the free that comes next
    em_free(a);
    const em_stats stats = session.end();
    CHECK(stats.requests == 2 && stats.hits == 1 && stats.failed == 1 && stats.bail == 1);
  }
}
