// Random requests under random settings: blocks tile their segments, and all sums agree with the source.
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "caching/caching_allocator.h"
#include "tests/check.h"
#include "tests/registry.h"
#include "tests/segments.h"

namespace {

using edgemem::BlockView;
using edgemem::CachingAllocator;
using edgemem::CachingSettings;

constexpr std::int64_t kMiB = 1 << 20;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
  }

 private:
  std::mt19937_64 engine_;
};

CachingSettings random_settings(Random& random) {
  CachingSettings settings;
  if (random.below(2) == 0) settings.max_split_size = (20 + random.below(20)) * kMiB;
  if (random.below(3) == 0) settings.roundup_power2_divisions.assign(CachingSettings::kDivisionClasses, 8);
  settings.expandable_segments = random.below(2) == 0;
  return settings;
}

std::int64_t random_size(Random& random) {
  switch (random.below(4)) {
    case 0:
      return 1 + random.below(4096);
    case 1:
      return 1 + random.below(2 * kMiB);
    case 2:
      return (1 + random.below(40)) * kMiB;
    default:
      return 1 + random.below(60 * kMiB);
  }
}

struct Request {
  std::uintptr_t address;
  std::int64_t bytes;
};

void check_blocks(const CachingAllocator& allocator, const Segments& source, const std::vector<Request>& alive,
                  bool is_expandable) {
  std::map<std::uintptr_t, Request> expected;
  for (const Request& request : alive) expected[request.address] = request;
  std::int64_t allocated = 0, requested = 0, reserved = 0;
  std::optional<BlockView> before;
  for (const BlockView& block : allocator.blocks()) {
    CHECK(block.size > 0 && block.size % 512 == 0);
    if (before && before->segment == block.segment) {
      CHECK(before->address + static_cast<std::uintptr_t>(before->size) == block.address);
      // Free neighbours are merged.
      CHECK(before->is_used || block.is_used || before->is_mapped != block.is_mapped);
    } else {
      CHECK(block.segment == block.address);
      CHECK(!before || before->address + static_cast<std::uintptr_t>(before->size) <= block.address);
    }
    if (block.is_mapped) reserved += block.size;
    if (block.is_used) {
      const Request& request = expected.at(block.address);
      CHECK(block.is_mapped && block.requested == request.bytes);
      CHECK(block.size >= request.bytes);
      allocated += block.size;
      requested += block.requested;
      expected.erase(block.address);
    }
    before = block;
  }
  CHECK(expected.empty());
  const auto& stats = allocator.stats();
  CHECK(stats.allocated == allocated && stats.requested == requested);
  CHECK(stats.reserved == reserved && (is_expandable || source.held == reserved));
  CHECK(stats.reserved_peak >= reserved && stats.allocated_peak >= allocated);
}

}  // namespace

TEST(caching_is_consistent_whatever_is_asked_for) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const CachingSettings settings = random_settings(random);
    // Half of the sources run out of memory.
    Segments source(random.below(2) == 0 ? (50 + random.below(400)) * kMiB : std::int64_t{1} << 50);
    CachingAllocator allocator(source, settings);
    std::vector<Request> alive;
    for (int step = 0; step < 400; ++step) {
      if (!alive.empty() && random.below(40) < static_cast<std::int64_t>(alive.size())) {
        const auto chosen = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(alive.size())));
        CHECK(allocator.give(alive[chosen].address));
        alive[chosen] = alive.back();
        alive.pop_back();
      } else {
        const std::int64_t bytes = random_size(random);
        const std::uintptr_t address = allocator.take(bytes, static_cast<std::uint64_t>(random.below(2)));
        if (address != 0) alive.push_back({address, bytes});
      }
      if (random.below(50) == 0) allocator.release_cached();
      if (step % 20 == 0) check_blocks(allocator, source, alive, settings.expandable_segments);
    }
    for (const Request& request : alive) CHECK(allocator.give(request.address));
    allocator.release_cached();
    CHECK(source.held == 0 && allocator.stats().requested == 0);
    CHECK(settings.expandable_segments || allocator.stats().reserved == 0);
  }
}
