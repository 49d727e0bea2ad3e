#include "replay/loop_fallback.h"

#include <cstddef>
#include <exception>
#include <new>
#include <unordered_map>
#include <vector>

#include "arena/totals.h"
#include "caching/caching_allocator.h"

namespace edgemem {

namespace {

class HostFallback final : public LoopFallback {
 public:
  void* take(int64_t bytes, void* /*stream*/, Origin origin) noexcept override {
    return blocks_.take(static_cast<std::size_t>(bytes), origin);
  }
  Freed give(void* block, int64_t run) noexcept override {
    return run == 0 || origin_of(block).run == run ? blocks_.give(block) : give_with_pages(block);
  }
  void share(void* /*block*/, void* /*stream*/) noexcept override {}
  void keep_large_whole(bool /*is_on*/) noexcept override {}
  void give_withheld() noexcept override {}
  int64_t empty_cache() noexcept override { return trim_pool(); }
  em_torch_memory memory() const noexcept override { return {}; }

 private:
  Blocks& blocks_ = blocks_of(MemoryKind::host);
};

// Segments from what em_cuda_source named.
class DeviceSegments final : public SegmentSource {
 public:
  std::uintptr_t take(std::int64_t bytes) noexcept override {
    return reinterpret_cast<std::uintptr_t>(blocks_.take(static_cast<std::size_t>(bytes), {}));
  }
  void give(std::uintptr_t address, std::int64_t /*bytes*/) noexcept override {
    blocks_.give(reinterpret_cast<void*>(address));
  }

 private:
  Blocks& blocks_ = blocks_of(MemoryKind::device);
};

class DeviceFallback final : public LoopFallback {
 public:
  void* take(int64_t bytes, void* stream, Origin origin) noexcept override {
    void* block = nullptr;
    try {
      const std::uintptr_t address =
          caching_.take(bytes, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream)));
      block = reinterpret_cast<void*>(address);
      if (address != 0) {
        entries_.insert_or_assign(address, Entry{{origin, bytes}, stream, false, false});
      }
    } catch (const std::exception&) {
      if (block != nullptr) {
        caching_.give(reinterpret_cast<std::uintptr_t>(block));
      }
      block = nullptr;
    }
    if (block == nullptr) {
      set_error("no memory for a block of %lld bytes on the device", static_cast<long long>(bytes));
    }
    return block;
  }

  Freed give(void* block, int64_t /*run*/) noexcept override {
    const auto found = entries_.find(reinterpret_cast<std::uintptr_t>(block));
    if (found == entries_.end() || found->second.is_withheld) {
      return {};
    }
    const Freed was = found->second.freed;
    if (found->second.is_shared) {
      found->second.is_withheld = true;
      ++withheld_;
    } else {
      caching_.give(found->first);
      entries_.erase(found);
    }
    return was;
  }

  void share(void* block, void* stream) noexcept override {
    const auto found = entries_.find(reinterpret_cast<std::uintptr_t>(block));
    if (found != entries_.end() && found->second.stream != stream) {
      found->second.is_shared = true;
    }
  }

  void keep_large_whole(bool is_on) noexcept override {
    caching_.set_max_split_size(is_on ? CachingSettings{}.large_segment_size : CachingSettings::kNoLimit);
  }

  void give_withheld() noexcept override {
    for (auto entry = entries_.begin(); withheld_ > 0 && entry != entries_.end();) {
      if (!entry->second.is_withheld) {
        ++entry;
        continue;
      }
      caching_.give(entry->first);
      entry = entries_.erase(entry);
      --withheld_;
    }
  }

  int64_t empty_cache() noexcept override { return caching_.release_cached(); }
  em_torch_memory memory() const noexcept override {
    const CachingStats& now = caching_.stats();
    return {now.allocated, now.allocated_peak, now.reserved, now.reserved_peak};
  }

 private:
  struct Entry {
    Freed freed;
    void* stream;
    bool is_shared;    // other streams use it, too
    bool is_withheld;  // freed, but other streams may still use it
  };

  DeviceSegments segments_;
  CachingAllocator caching_{segments_};
  std::unordered_map<std::uintptr_t, Entry> entries_;
  int64_t withheld_ = 0;
};

}  // namespace

LoopFallback* make_fallback(int32_t device) noexcept {
  try {
    if (device == EM_HOST_MEMORY) {
      return new HostFallback;
    }
    return new DeviceFallback;
  } catch (const std::exception&) {
    set_error("no memory for the allocator of device %d", device);
    return nullptr;
  }
}

}  // namespace edgemem
