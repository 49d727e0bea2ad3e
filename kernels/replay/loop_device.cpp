#include "replay/loop_device.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <new>

#include "arena/totals.h"
#include "replay/loop.h"

namespace edgemem {

namespace {

constexpr std::size_t kDevices = EM_MOST_DEVICES + 1;  // host memory comes first

}  // namespace

LoopDevice* LoopDevice::find(int32_t number) noexcept {
  alignas(LoopDevice) static std::array<std::byte, kDevices * sizeof(LoopDevice)> room;
  static LoopDevice* const all = [] {
    auto* made = reinterpret_cast<LoopDevice*>(room.data());
    for (std::size_t k = 0; k < kDevices; ++k) {
      (new (made + k) LoopDevice)->number_ = static_cast<int32_t>(k) + EM_HOST_MEMORY;
    }
    return made;
  }();
  if (number < EM_HOST_MEMORY || number >= EM_MOST_DEVICES) {
    set_error("there is no device %d: host memory is %d, others are 0 to %d", number, EM_HOST_MEMORY,
              EM_MOST_DEVICES - 1);
    return nullptr;
  }
  return &all[number - EM_HOST_MEMORY];
}

void* LoopDevice::allocate(int64_t bytes, void* stream) noexcept {
  const std::scoped_lock lock(mutex_);
  return active_ != nullptr ? active_->allocate(bytes, stream) : take_fallback(bytes, stream, {});
}

void LoopDevice::free(void* block, void* stream) noexcept {
  const std::scoped_lock lock(mutex_);
  LoopArena* home = arena_of(block);
  Freed was;
  if (home != nullptr) {
    was = home->give(block);
    if (!home->is_needed()) {
      forget_unneeded();
    }
  } else if (fallback_ != nullptr) {
    was = fallback_->give(block, active_ == nullptr ? 0 : active_->run_of_plan());
  }
  if (active_ != nullptr && was.bytes != 0) {
    active_->freed(was, home != nullptr, stream);
  }
}

void LoopDevice::share(void* block, void* stream) noexcept {
  const std::scoped_lock lock(mutex_);
  if (LoopArena* home = arena_of(block)) {
    home->share(block, stream);
  } else if (fallback_ != nullptr) {
    fallback_->share(block, stream);
  }
}

int64_t LoopDevice::empty_cache() noexcept {
  const std::scoped_lock lock(mutex_);
  return fallback_ == nullptr ? 0 : fallback_->empty_cache();
}

em_torch_memory LoopDevice::fallback_memory() noexcept {
  const std::scoped_lock lock(mutex_);
  return fallback_ == nullptr ? em_torch_memory{} : fallback_->memory();
}

void* LoopDevice::take_fallback(int64_t bytes, void* stream, Origin origin) noexcept {
  if (fallback_ == nullptr) {
    fallback_ = make_fallback(number_);
  }
  if (fallback_ == nullptr) {
    return nullptr;
  }
  fallback_->keep_large_whole(active_ != nullptr && active_->run_of_plan() == 0);
  return fallback_->take(bytes, stream, origin);
}

LoopArena* LoopDevice::enter(em_arena& arena, int32_t& code) noexcept {
  if (!arena.enter()) {
    set_error(arena.has_parts() ? "the arena was made with EM_PARTS: give a part of it (em_arena_part)"
                                : "the arena is in use: by another run or loop, or by a block");
    code = EM_BUSY;
    return nullptr;
  }
  try {
    arenas_.push_back(std::make_unique<LoopArena>(arena));
  } catch (const std::exception&) {
    arena.leave();
    set_error("no memory to use an arena");
    code = EM_NO_MEMORY;
    return nullptr;
  }
  arenas_.back()->set_entered();
  return arenas_.back().get();
}

void LoopDevice::leave(LoopArena& arena) noexcept {
  arena.leave();
  forget_unneeded();
}

void LoopDevice::give_withheld() noexcept {
  for (const auto& arena : arenas_) {
    arena->give_withheld();
  }
  forget_unneeded();
  if (fallback_ != nullptr) {
    fallback_->give_withheld();
  }
}

LoopArena* LoopDevice::arena_of(const void* block) noexcept {
  const auto found =
      std::find_if(arenas_.rbegin(), arenas_.rend(), [block](const auto& arena) { return arena->contains(block); });
  return found == arenas_.rend() ? nullptr : found->get();
}

void LoopDevice::forget_unneeded() noexcept {
  std::erase_if(arenas_, [](const auto& arena) { return !arena->is_needed(); });
}

void lock_loops() {
  for (int32_t k = EM_HOST_MEMORY; k < EM_MOST_DEVICES; ++k) {
    LoopDevice::find(k)->mutex().lock();
  }
}

void unlock_loops() {
  for (int32_t k = EM_HOST_MEMORY; k < EM_MOST_DEVICES; ++k) {
    LoopDevice::find(k)->mutex().unlock();
  }
}

}  // namespace edgemem
