#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "caching/caching_allocator.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/segments.h"

namespace {

using edgemem::CachingAllocator;
using edgemem::CachingSettings;

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;

std::uintptr_t after(std::uintptr_t address, std::int64_t bytes) {
  return address + static_cast<std::uintptr_t>(bytes);
}

// Bytes of the block in use at an address; 0 if there is none.
std::int64_t size_at(const CachingAllocator& allocator, std::uintptr_t address) {
  for (const edgemem::BlockView& block : allocator.blocks()) {
    if (block.address == address && block.is_used) return block.size;
  }
  return 0;
}

// Bytes of the block that serves a request.
std::int64_t block_of(std::int64_t bytes, CachingSettings settings = {}) {
  Segments source;
  CachingAllocator allocator(source, std::move(settings));
  const std::uintptr_t block = allocator.take(bytes, 0);
  return size_at(allocator, block);
}

// Bytes of the segment that is taken for a request.
std::int64_t segment_of(std::int64_t bytes) {
  Segments source;
  CachingAllocator allocator(source);
  CHECK(allocator.take(bytes, 0) != 0);
  return source.held;
}

CachingSettings rounded_to(std::int64_t divisions) {
  return {.roundup_power2_divisions = std::vector<std::int64_t>(CachingSettings::kDivisionClasses, divisions)};
}

}  // namespace

TEST(caching_rounds_requests_to_512_bytes) {
  CHECK(block_of(1) == 512);
  CHECK(block_of(512) == 512);
  CHECK(block_of(513) == 1024);
  CHECK(block_of(3 * kMiB + 1) == 3 * kMiB + 512);
}

TEST(caching_takes_segments_of_the_published_sizes) {
  CHECK(segment_of(1) == 2 * kMiB);
  CHECK(segment_of(kMiB) == 2 * kMiB);
  CHECK(segment_of(kMiB + 1) == 20 * kMiB);
  CHECK(segment_of(10 * kMiB - 512) == 20 * kMiB);
  CHECK(segment_of(10 * kMiB) == 10 * kMiB);
  CHECK(segment_of(11 * kMiB) == 12 * kMiB);
}

TEST(caching_takes_other_segments_for_medium_requests_if_told_so) {
  for (const bool expandable : {false, true}) {
    Segments source;
    CachingAllocator allocator(source, {.large_segment_size = 12 * kMiB, .expandable_segments = expandable});
    CHECK(allocator.take(kMiB + 1, 0) != 0);
    CHECK(allocator.stats().reserved == 12 * kMiB);
  }
}

TEST(caching_rounds_to_divisions_of_a_power_of_two) {
  CHECK(block_of(1200 * kMiB, rounded_to(4)) == 1280 * kMiB);
  CHECK(block_of(1024 * kMiB, rounded_to(4)) == 1024 * kMiB);
  CHECK(block_of(4 * 512, rounded_to(4)) == 4 * 512);  // too small to be divided
  CHECK(block_of(4 * 512 + 1, rounded_to(4)) == 5 * 512);
  CHECK(block_of(5 * kKiB, rounded_to(4)) == 5 * kKiB);
  CHECK(block_of(5 * kKiB + 1, rounded_to(4)) == 6 * kKiB);
  CHECK(block_of(5 * kKiB + 1, rounded_to(1)) == 5 * kKiB + 512);
  // A number for each power: of 2 to 4 MiB only.
  CachingSettings one = rounded_to(0);
  one.roundup_power2_divisions[1] = 2;
  CHECK(block_of(2 * kMiB + 1, one) == 3 * kMiB);
  CHECK(block_of(4 * kMiB + 1, one) == 4 * kMiB + 512);
  CHECK(block_of(kMiB + 1, one) == kMiB + 512);
}

TEST(caching_uses_the_smallest_free_block_and_the_lowest_of_equals) {
  Segments source;
  CachingAllocator allocator(source);
  std::vector<std::uintptr_t> blocks;
  for (const std::int64_t size : {30, 14, 24, 24, 16}) blocks.push_back(allocator.take(size * kMiB, 0));
  for (const std::size_t freed : {4, 3, 2, 0}) CHECK(allocator.give(blocks[freed]));
  const std::int64_t held = source.held;
  CHECK(allocator.take(17 * kMiB, 0) == blocks[2]);
  CHECK(allocator.take(18 * kMiB, 0) == blocks[3]);
  CHECK(allocator.take(16 * kMiB, 0) == blocks[4]);
  CHECK(source.held == held);
}

TEST(caching_splits_large_blocks_if_more_than_1_mib_is_left) {
  Segments source;
  CachingAllocator allocator(source);
  const std::uintptr_t whole = allocator.take(12 * kMiB, 0);
  CHECK(allocator.give(whole));
  CHECK(allocator.take(11 * kMiB, 0) == whole);
  CHECK(size_at(allocator, whole) == 12 * kMiB);
  CHECK(allocator.give(whole));
  CHECK(allocator.take(11 * kMiB - 512, 0) == whole);
  CHECK(size_at(allocator, whole) == 11 * kMiB - 512);
  CHECK(allocator.take(kMiB + 512, 0) == after(whole, 11 * kMiB - 512));
  CHECK(source.held == 12 * kMiB);
}

TEST(caching_splits_small_blocks_if_512_bytes_are_left) {
  Segments source;
  CachingAllocator allocator(source);
  const std::uintptr_t first = allocator.take(kMiB, 0);
  const std::uintptr_t second = allocator.take(kMiB - 512, 0);
  CHECK(second == after(first, kMiB));
  CHECK(size_at(allocator, second) == kMiB - 512);
  CHECK(allocator.take(1, 0) == after(second, kMiB - 512));
  CHECK(source.held == 2 * kMiB);
}

TEST(caching_merges_free_neighbours) {
  Segments source;
  CachingAllocator allocator(source);
  const std::uintptr_t one = allocator.take(4 * kMiB, 0);
  const std::uintptr_t two = allocator.take(4 * kMiB, 0);
  const std::uintptr_t three = allocator.take(4 * kMiB, 0);
  CHECK(allocator.give(one));
  CHECK(allocator.give(three));
  CHECK(allocator.give(two));
  CHECK(allocator.blocks().size() == 1);
  CHECK(allocator.take(20 * kMiB, 0) == one);
  CHECK(source.held == 20 * kMiB);
}

TEST(caching_keeps_the_streams_apart) {
  Segments source;
  CachingAllocator allocator(source);
  const std::uintptr_t block = allocator.take(12 * kMiB, 1);
  CHECK(allocator.give(block));
  CHECK(allocator.take(12 * kMiB, 2) != block);
  CHECK(allocator.take(12 * kMiB, 1) == block);
}

TEST(caching_counts_what_is_requested_allocated_and_reserved) {
  Segments source;
  CachingAllocator allocator(source);
  const std::uintptr_t block = allocator.take(100, 0);
  CHECK(allocator.take(3 * kMiB + 1, 0) != 0);
  CHECK(allocator.give(block));
  const auto& stats = allocator.stats();
  CHECK(stats.requested == 3 * kMiB + 1);
  CHECK(stats.allocated == 3 * kMiB + 512 && stats.allocated_peak == 3 * kMiB + 1024);
  CHECK(stats.reserved == 22 * kMiB && stats.reserved == source.held);
}

TEST(caching_releases_free_segments_and_retries_when_memory_runs_out) {
  Segments source(40 * kMiB);
  CachingAllocator allocator(source);
  const std::uintptr_t kept = allocator.take(4 * kMiB, 0);
  CHECK(allocator.give(allocator.take(12 * kMiB, 0)));  // a part of the first segment
  CHECK(allocator.give(allocator.take(18 * kMiB, 0)));
  CHECK(allocator.take(20 * kMiB, 1) != 0);
  CHECK(source.held == 40 * kMiB);
  CHECK(allocator.take(20 * kMiB, 1) == 0);
  CHECK(size_at(allocator, kept) == 4 * kMiB);
  CHECK(allocator.give(kept));
  CHECK(allocator.release_cached() == 20 * kMiB);
  CHECK(source.held == 20 * kMiB && allocator.stats().reserved == source.held && allocator.blocks().size() == 1);
}

TEST(caching_does_not_split_blocks_above_the_limit) {
  Segments source;
  CachingAllocator allocator(source, {.max_split_size = 40 * kMiB});
  const std::uintptr_t large = allocator.take(60 * kMiB, 0);
  CHECK(allocator.give(large));
  CHECK(allocator.take(39 * kMiB, 0) != large);  // it would have to be split
  CHECK(allocator.take(40 * kMiB, 0) != large);  // 20 MiB would be left
  CHECK(allocator.take(41 * kMiB, 0) == large);
  CHECK(size_at(allocator, large) == 60 * kMiB);
}

TEST(caching_grows_expandable_segments_by_pages) {
  Segments source;
  CachingAllocator allocator(source, {.expandable_segments = true});
  const std::uintptr_t one = allocator.take(12 * kMiB, 0);
  CHECK(allocator.stats().reserved == 20 * kMiB);
  const std::uintptr_t two = allocator.take(12 * kMiB, 0);  // 8 MiB are there
  CHECK(two == after(one, 12 * kMiB) && allocator.stats().reserved == 40 * kMiB);
  CHECK(allocator.give(one));
  const std::uintptr_t three = allocator.take(14 * kMiB, 0);  // too large for the hole
  CHECK(three == after(two, 12 * kMiB) && allocator.stats().reserved == 40 * kMiB);
  CHECK(allocator.take(12 * kMiB, 0) == one);
  CHECK(allocator.take(1, 0) != 0);  // the small pool has pages of 2 MiB
  CHECK(allocator.stats().reserved == 42 * kMiB);
}

TEST(caching_fails_without_memory_and_refuses_what_it_does_not_know) {
  Segments nothing(0);
  CachingAllocator allocator(nothing);
  CHECK(allocator.take(1, 0) == 0);
  CHECK(allocator.take(0, 0) == 0);
  CHECK(allocator.take(-1, 0) == 0);
  CHECK(allocator.take(std::int64_t{1} << 60, 0) == 0);
  CHECK(!allocator.give(0));
  CHECK(!allocator.give(12345));
  Segments source;
  CachingAllocator other(source);
  const std::uintptr_t block = other.take(1, 0);
  CHECK(other.give(block));
  CHECK(!other.give(block));  // freed twice
  CHECK(size_at(other, block) == 0);
}

TEST(caching_refuses_settings_that_pytorch_refuses) {
  Segments source;
  CHECK_REFUSED(CachingAllocator(source, {.large_segment_size = 10 * kMiB}));
  CHECK_REFUSED(CachingAllocator(source, {.large_segment_size = 40 * kMiB, .max_split_size = 30 * kMiB}));
  CHECK_REFUSED(CachingAllocator(source, {.max_split_size = 20 * kMiB - 1}));
  CHECK_REFUSED(CachingAllocator(source, {.max_non_split_rounding = 0}));
  CHECK_REFUSED(CachingAllocator(source, {.roundup_power2_divisions = {4}}));
  CHECK_REFUSED(CachingAllocator(source, rounded_to(3)));
}
