#include "arena/blocks.h"

#include <sys/mman.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

#include "arena/block_header.h"
#include "arena/pool.h"
#include "arena/totals.h"

namespace edgemem {

namespace {

// Large weights are mapped. A runtime frees one form of a weight while it makes the next, and the C library would keep
// the memory of what is freed between others: it is told to give that back each time so much of weights is taken.
constexpr int64_t kMapped = int64_t{1} << 20;
constexpr std::size_t kTrimAfter = std::size_t{1} << 20;

// Before so many bytes of a weight are taken.
void give_back_what_weights_replace([[maybe_unused]] std::size_t bytes) {
#ifdef __GLIBC__
  static std::atomic<std::size_t> reserved{0};
  if (reserved.fetch_add(bytes, std::memory_order_relaxed) % kTrimAfter + bytes >= kTrimAfter) {
    malloc_trim(0);
  }
#endif
}

void* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

std::nullptr_t fail(std::size_t bytes) {
  set_error("no memory for a block of %zu bytes", bytes);
  return nullptr;
}

// Neither this nor what device() gives is ever destroyed: a runtime frees blocks while the process ends.
Pool& pool() {
  static Pool* all = new Pool;
  return *all;
}

class HostBlocks final : public Blocks {
 public:
  void* take(std::size_t bytes, Origin origin) noexcept override {
    if (is_above_most(bytes) || !system_may_give()) {
      return fail(bytes);
    }
    const auto size = static_cast<int64_t>(bytes);
    em_budget* budget = budget_here();
    if (budget != nullptr && !budget->charge(block_bytes(size))) {
      return nullptr;
    }
    BlockHeader* block = pool().take(size);
    if (block == nullptr) {
      if (budget != nullptr) {
        budget->discharge(block_bytes(size));
      }
      return fail(bytes);
    }
    block->bytes = size;
    block->budget = budget;
    block->origin = origin;
    count_heap(size);
    return block->payload();
  }

  Freed give(void* payload) noexcept override {
    BlockHeader* block = BlockHeader::of(payload);
    const Freed was{block->origin, block->bytes};
    if (block->size == 0) {
      totals().reserve_live.fetch_sub(was.bytes, std::memory_order_relaxed);
      if (block->before != 0) {
        munmap(block, static_cast<std::size_t>(block->before));
      } else {
        std::free(block);
      }
    } else {
      count_heap(-was.bytes);
      em_budget* budget = block->budget;
      const bool has_pages = budget == nullptr || block->size < kWorthACall;
      if (!has_pages) {
        Pool::give_pages(*block);  // what is free holds no memory of the budget's process
      }
      pool().give(block, has_pages);
      if (budget != nullptr) {
        budget->discharge(block_bytes(was.bytes));
      }
    }
    return was;
  }
};

// Device memory has no room for a header, so a table stands beside it.
class DeviceBlocks final : public Blocks {
 public:
  void* take(std::size_t bytes, Origin origin) noexcept override {
    void* block = nullptr;
    const std::scoped_lock lock(mutex_);
    if (is_above_most(bytes) || take_ == nullptr || !system_may_give() || take_(&block, bytes) != 0 ||
        block == nullptr) {
      return fail(bytes);
    }
    try {
      blocks_.insert_or_assign(block, Entry{{origin, static_cast<int64_t>(bytes)}, give_});
    } catch (const std::bad_alloc&) {
      give_(block);
      return fail(bytes);
    }
    count_heap(static_cast<int64_t>(bytes));
    return block;
  }

  Freed give(void* block) noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) {
      return {};
    }
    const Entry was = found->second;
    blocks_.erase(found);
    count_heap(-was.freed.bytes);
    was.give(block);
    return was.freed;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  void source(int (*take)(void**, std::size_t), int (*give)(void*)) noexcept {
    const std::scoped_lock lock(mutex_);
    take_ = give == nullptr ? nullptr : take;
    give_ = give;
  }

 private:
  struct Entry {
    Freed freed;
    int (*give)(void*);
  };

  std::mutex mutex_;
  std::unordered_map<void*, Entry> blocks_;
  int (*take_)(void**, std::size_t) = nullptr;
  int (*give_)(void*) = nullptr;
};

DeviceBlocks& device() {
  static DeviceBlocks* all = new DeviceBlocks;
  return *all;
}

}  // namespace

Blocks& blocks_of(MemoryKind kind) {
  static HostBlocks* host = new HostBlocks;
  if (kind == MemoryKind::host) {
    return *host;
  }
  return device();
}

void* reserve(std::size_t bytes) noexcept {
  if (bytes == 0) {
    return nullptr;
  }
  if (is_above_most(bytes) || !system_may_give()) {
    return fail(bytes);
  }
  const auto size = static_cast<int64_t>(bytes);
  const auto whole = static_cast<std::size_t>(rounded_up(size, kBlockAlignment)) + sizeof(BlockHeader);
  const bool is_mapped = size >= kMapped;
  give_back_what_weights_replace(whole);
  void* memory = is_mapped ? map(whole) : nullptr;
  if (!is_mapped && posix_memalign(&memory, kBlockAlignment, whole) != 0) {  // older than aligned_alloc on Android
    memory = nullptr;
  }
  if (memory == nullptr) {
    return fail(bytes);
  }
  totals().reserve_live.fetch_add(size, std::memory_order_relaxed);
  auto* block = new (memory) BlockHeader{};
  block->bytes = size;
  block->before = is_mapped ? static_cast<int64_t>(whole) : 0;
  return block->payload();
}

Freed give_with_pages(void* block) noexcept {
  const BlockHeader& header = *BlockHeader::of(block);
  if (header.size >= kWorthACall) {
    Pool::give_pages(header);
  }
  return blocks_of(MemoryKind::host).give(block);
}

Origin origin_of(void* block) noexcept { return BlockHeader::of(block)->origin; }

bool is_in_pool(const void* address) noexcept { return pool().contains(address); }

int64_t trim_pool() noexcept { return pool().trim(); }

void lock_blocks() {
  pool().lock();
  device().lock();
}

void unlock_blocks() {
  device().unlock();
  pool().unlock();
}

void set_device_source(int (*take)(void**, std::size_t), int (*give)(void*)) noexcept { device().source(take, give); }

}  // namespace edgemem
