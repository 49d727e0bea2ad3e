// The pool where addresses or memory are short: each case in a process of its own, which it limits.
#ifdef __linux__
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "arena/block_header.h"
#include "arena/pool.h"
#include "replay/edgemem_arena.h"
#include "tests/arena_plans.h"
#include "tests/arena_process.h"
#include "tests/check.h"
#include "tests/registry.h"

using edgemem::BlockHeader;
using edgemem::Pool;

namespace {

constexpr int64_t kMebibyte = 1 << 20;

// From now on the process gets at most `bytes` more: of addresses, or of private data.
void limit_addresses(int64_t bytes) {
  const auto most = static_cast<rlim_t>(mapped("VmSize") + bytes);
  const rlimit limit{most, most};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

void limit_data(int64_t bytes) {
  const auto most = static_cast<rlim_t>(mapped("VmData") + bytes);
  const rlimit limit{most, most};
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

// Blocks of so many bytes until there are no more.
std::vector<BlockHeader*> take_all(Pool& pool, int64_t bytes) {
  std::vector<BlockHeader*> blocks;
  while (BlockHeader* block = pool.take(bytes)) {
    std::memset(block->payload(), 1, static_cast<std::size_t>(bytes));
    blocks.push_back(block);
  }
  return blocks;
}

bool system_gives(int64_t bytes) {
  void* memory =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED && munmap(memory, static_cast<std::size_t>(bytes)) == 0;
}

}  // namespace

TEST(the_pool_leaves_limited_addresses_to_the_rest_of_the_process) {
  CHECK(holds_in_child([] {
    limit_addresses(300 * kMebibyte);
    Pool pool;
    for (int k = 0; k < 1000; ++k) {
      CHECK(pool.take(10'000) != nullptr);  // 10 MB
    }
    CHECK(system_gives(200 * kMebibyte));
    CHECK(pool.take(100 * kMebibyte) != nullptr);
    CHECK(system_gives(100 * kMebibyte));
    return true;
  }));
}

TEST(the_pool_uses_most_of_limited_addresses_and_then_gives_null) {
  CHECK(holds_in_child([] {
    limit_addresses(300 * kMebibyte);
    Pool pool;
    std::vector<BlockHeader*> blocks = take_all(pool, kMebibyte);
    CHECK(blocks.size() >= 200);
    const int64_t addresses = mapped("VmSize");
    for (int k = 0; k < 1000; ++k) {
      CHECK(pool.take(kMebibyte + 100 * k) == nullptr);
    }
    CHECK(mapped("VmSize") == addresses);
    for (int round = 0; round < 3; ++round) {
      const std::size_t count = blocks.size();
      for (BlockHeader* block : blocks) {
        pool.give(block);
      }
      CHECK(pool.trim() >= 0);
      blocks = take_all(pool, kMebibyte);
      CHECK(blocks.size() >= count);
    }
    pool.give(blocks.back());
    CHECK(pool.take(kMebibyte) != nullptr);
    return true;
  }));
}

TEST(requests_that_fail_cost_no_addresses) {
  CHECK(holds_in_child([] {
    limit_data(64 * kMebibyte);
    Pool pool;
    BlockHeader* first = pool.take(100);
    CHECK(first != nullptr);
    const int64_t addresses = mapped("VmSize");
    for (int64_t k = 0; k < 500; ++k) {  // larger each time, so that no region of an earlier one would do
      CHECK(pool.take(100 * kMebibyte + (k << 30)) == nullptr);
    }
    CHECK(mapped("VmSize") - addresses <= kMebibyte);
    CHECK(pool.take(1000) != nullptr && pool.take(16 * kMebibyte) != nullptr);
    CHECK(take_all(pool, kMebibyte).size() >= 30);
    return true;
  }));
}

TEST(a_request_that_memory_cannot_hold_is_null_where_the_system_says_so) {
  constexpr int64_t kTebibyte = int64_t{1} << 40;
  const bool system_does = system_gives(16 * kTebibyte);
  Pool pool;
  BlockHeader* block = pool.take(16 * kTebibyte);
  CHECK((block != nullptr) == system_does);
  CHECK(pool.take(100) != nullptr);
}

TEST(the_allocator_answers_null_when_memory_is_exhausted) {
  CHECK(holds_in_child([] {
    limit_data(200 * kMebibyte);  // the process's own pool has its addresses already
    std::vector<void*> blocks;
    while (void* block = em_allocate(kMebibyte)) {
      std::memset(block, 1, kMebibyte);
      blocks.push_back(block);
    }
    CHECK(blocks.size() >= 100 && std::strstr(em_last_error(), "no memory") != nullptr);
    CHECK(em_arena_create(300 * kMebibyte, 0) == nullptr);
    for (void* block : blocks) {
      em_free(block);
    }
    CHECK(em_trim() >= 100 * kMebibyte);
    void* again = em_allocate(kMebibyte);
    CHECK(again != nullptr);
    em_free(again);
    return true;
  }));
}
#endif
