#include "arena/blocks.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

#include "arena/totals.h"

namespace edgemem {

namespace {

constexpr std::size_t kAlignment = 64;  // also of what runtimes' kernels expect

// Stands in the 64 bytes before every host block.
struct alignas(kAlignment) Header {
  int64_t bytes;
  Origin origin;
  bool reserved;
};

Header* header(void* block) { return static_cast<Header*>(block) - 1; }

std::nullptr_t fail(std::size_t bytes) {
  set_error("no memory for a block of %zu bytes", bytes);
  return nullptr;
}

void* host(std::size_t bytes, Origin origin, bool reserved) noexcept {
  if (is_above_most(bytes) || !system_may_give()) {
    return fail(bytes);
  }
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment + sizeof(Header);
  void* memory = std::aligned_alloc(kAlignment, whole);
  if (memory == nullptr) {
    return fail(bytes);
  }
  const auto size = static_cast<int64_t>(bytes);
  if (reserved) {
    totals().reserve_live.fetch_add(size, std::memory_order_relaxed);
  } else {
    count_heap(size);
  }
  return new (memory) Header{size, origin, reserved} + 1;
}

class HostBlocks final : public Blocks {
 public:
  void* take(std::size_t bytes, Origin origin) noexcept override { return host(bytes, origin, false); }

  Freed give(void* block) noexcept override {
    const Header was = *header(block);
    if (was.reserved) {
      totals().reserve_live.fetch_sub(was.bytes, std::memory_order_relaxed);
    } else {
      count_heap(-was.bytes);
    }
    std::free(header(block));
    return {was.origin, was.bytes};
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

// Neither is ever destroyed: a runtime frees blocks while the process ends.
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

void* reserve(std::size_t bytes) noexcept { return bytes == 0 ? nullptr : host(bytes, {}, true); }

void set_device_source(int (*take)(void**, std::size_t), int (*give)(void*)) noexcept { device().source(take, give); }

}  // namespace edgemem
