#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "remat/pool.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::remat::Pool;

// Blocks tile the pool, free neighbours are merged, and the sums agree.
void check_tiling(const Pool& pool) {
  std::int64_t end = 0, used = 0, count = 0;
  bool was_free = false;
  for (Pool::Index i = pool.first(); i != Pool::kNone; i = pool.block(i).after) {
    const Pool::Block& block = pool.block(i);
    CHECK(block.address == end && block.bytes > 0);
    CHECK(!(was_free && block.is_free));
    CHECK(pool.used_at(block.address) == (block.is_free ? Pool::kNone : i));
    end += block.bytes;
    used += block.is_free ? 0 : block.bytes;
    was_free = block.is_free;
    ++count;
  }
  CHECK(end == pool.bytes() && used == pool.used() && count == pool.block_count());
}

// Free blocks of 20, 40 and 30 bytes, from left to right.
Pool pool_with_holes() {
  Pool pool(100);
  const Pool::Index first = pool.take_left(pool.first(), 20, -1);
  pool.take_left(pool.leftmost(1), 5, -1);
  const Pool::Index second = pool.take_left(pool.leftmost(1), 40, -1);
  pool.take_left(pool.leftmost(1), 5, -1);
  pool.give(first);
  pool.give(second);
  return pool;
}

}  // namespace

TEST(remat_pool_finds_the_leftmost_the_rightmost_and_the_smallest_block_that_fits) {
  const Pool pool = pool_with_holes();
  check_tiling(pool);
  CHECK(pool.block(pool.leftmost(10)).address == 0);
  CHECK(pool.block(pool.leftmost(21)).address == 25);
  CHECK(pool.block(pool.rightmost(10)).address == 70);
  CHECK(pool.block(pool.rightmost(31)).address == 25);
  CHECK(pool.block(pool.best(10)).address == 0);
  CHECK(pool.block(pool.best(21)).address == 70);
  CHECK(pool.block(pool.best(31)).address == 25);
  CHECK(pool.leftmost(41) == Pool::kNone && pool.rightmost(41) == Pool::kNone && pool.best(41) == Pool::kNone);
}

TEST(remat_pool_takes_at_either_end_of_a_free_block) {
  Pool pool = pool_with_holes();
  CHECK(pool.block(pool.take_left(pool.leftmost(30), 10, 7)).address == 25);
  const Pool::Index right = pool.take_right(pool.leftmost(30), 30, 8);
  CHECK(pool.block(right).address == 35 && pool.block(right).owner == 8);
  check_tiling(pool);
  CHECK(pool.block(pool.take_right(pool.rightmost(30), 10, 9)).address == 90);
  check_tiling(pool);
}

TEST(remat_pool_merges_what_is_given_with_both_neighbours) {
  Pool pool(30);
  const Pool::Index left = pool.take_left(pool.first(), 10, -1);
  const Pool::Index middle = pool.take_left(pool.leftmost(1), 10, -1);
  const Pool::Index right = pool.take_left(pool.leftmost(1), 10, -1);
  CHECK(pool.leftmost(1) == Pool::kNone);
  pool.give(left);
  pool.give(right);
  check_tiling(pool);
  pool.give(middle);
  check_tiling(pool);
  CHECK(pool.block_count() == 1);
}

TEST(remat_pool_grows_at_its_end) {
  Pool pool(0);
  CHECK(pool.first() == Pool::kNone && pool.leftmost(1) == Pool::kNone);
  pool.grow(10);
  const Pool::Index all = pool.take_left(pool.leftmost(10), 10, -1);
  pool.grow(5);
  pool.grow(5);
  check_tiling(pool);
  CHECK(pool.block(pool.leftmost(10)).address == 10);
  pool.give(all);
  CHECK(pool.block_count() == 1 && pool.bytes() == 20);
  CHECK_REFUSED(pool.grow(-1));
  CHECK_REFUSED(pool.grow(INT64_MAX));
  CHECK_REFUSED(Pool(-1));
}

TEST(remat_pool_stays_tiled_by_random_requests) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  Pool pool(1000);
  std::vector<Pool::Index> taken;
  for (int step = 0; step < 4000; ++step) {
    const std::int64_t bytes = 1 + below(120);
    const Pool::Index free[] = {pool.leftmost(bytes), pool.rightmost(bytes), pool.best(bytes)};
    const Pool::Index found = free[below(3)];
    CHECK((free[0] == Pool::kNone) == (free[1] == Pool::kNone) && (free[0] == Pool::kNone) == (free[2] == Pool::kNone));
    if (found != Pool::kNone && below(3) > 0) {
      taken.push_back(below(2) == 0 ? pool.take_left(found, bytes, -1) : pool.take_right(found, bytes, -1));
    } else if (!taken.empty()) {
      std::swap(taken[static_cast<std::size_t>(below(taken.size()))], taken.back());
      pool.give(taken.back());
      taken.pop_back();
    }
    check_tiling(pool);
  }
}
