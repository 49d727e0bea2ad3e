#include "arena/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "arena/blocks.h"
#include "arena/totals.h"

namespace {

// A float of these bytes is a NaN or a large negative number, an integer is large: neither goes unnoticed.
constexpr std::array<unsigned char, 2> kPattern{0xFF, 0xCD};

struct Table {
  std::shared_mutex mutex;
  std::map<const std::byte*, em_arena*> by_base;
};

// Never destroyed: a runtime frees blocks while the process ends.
Table& table() {
  static Table* all = new Table;
  return *all;
}

bool is_possible(int64_t size) {
  if (size >= 0 && size <= edgemem::kMostBytes) {
    return true;
  }
  edgemem::set_error("an arena of %lld bytes is impossible", static_cast<long long>(size));
  return false;
}

}  // namespace

em_arena* em_arena::create(int64_t size, bool guard, bool has_parts) {
  const auto page = static_cast<std::size_t>(getpagesize());
  if (!is_possible(size)) {
    return nullptr;
  }
  const std::size_t needed = size ? static_cast<std::size_t>(size) : 1;
  const std::size_t pages = (needed + page - 1) / page * page;
  em_budget* budget = edgemem::budget_here();
  if (budget != nullptr && !budget->charge(static_cast<int64_t>(pages))) {
    return nullptr;
  }
  em_arena* arena = map(needed, pages, guard ? page : 0, has_parts);
  if (arena != nullptr) {
    arena->budget_ = budget;
  } else if (budget != nullptr) {
    budget->discharge(static_cast<int64_t>(pages));
  }
  return arena;
}

em_arena* em_arena::map(std::size_t needed, std::size_t pages, std::size_t guard, bool has_parts) {
  const std::size_t mapped = pages + guard;
  void* memory = edgemem::system_may_give()
                     ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;
  if (memory == MAP_FAILED) {
    edgemem::set_error("no memory for an arena of %zu bytes", needed);
    return nullptr;
  }
  auto* base = static_cast<std::byte*>(memory);
  if (guard != 0) {
    if (mprotect(base + pages, guard, PROT_NONE) != 0) {
      edgemem::set_error("no guard page: %s", std::strerror(errno));
      munmap(memory, mapped);
      return nullptr;
    }
    // The arena ends as near to the guard page as its alignment allows.
    base += (pages - needed) / 64 * 64;
  }
  auto* arena = new (std::nothrow) em_arena(base, static_cast<int64_t>(needed), edgemem::MemoryKind::host, mapped);
  if (arena != nullptr) {
    arena->has_parts_ = has_parts;
  }
  if (arena == nullptr || !arena->listed()) {
    edgemem::set_error("no memory to list an arena");
    if (arena == nullptr) {
      munmap(memory, mapped);
    }
    delete arena;
    return nullptr;
  }
  return arena;
}

em_arena* em_arena::wrap(void* base, int64_t size, edgemem::MemoryKind kind) {
  if (base == nullptr || size <= 0) {
    edgemem::set_error("an arena needs memory and a size above 0");
    return nullptr;
  }
  if (!is_possible(size)) {
    return nullptr;
  }
  if (reinterpret_cast<std::uintptr_t>(base) > UINTPTR_MAX - static_cast<std::uintptr_t>(size)) {
    edgemem::set_error("an arena of %lld bytes does not fit after its address", static_cast<long long>(size));
    return nullptr;
  }
  auto* arena = new (std::nothrow) em_arena(static_cast<std::byte*>(base), size, kind, 0);
  if (arena == nullptr || !arena->listed()) {
    edgemem::set_error("no memory to list an arena, or it overlaps another one");
    delete arena;
    return nullptr;
  }
  return arena;
}

em_arena* em_arena::part(int64_t offset, int64_t size) {
  if (!has_parts_ || offset < 0 || size <= 0 || offset > size_ || size > size_ - offset) {
    edgemem::set_error("an arena of %lld bytes has no part of %lld bytes at %lld", static_cast<long long>(size_),
                       static_cast<long long>(size), static_cast<long long>(offset));
    return nullptr;
  }
  auto* made = new (std::nothrow) em_arena(base_ + offset, size, kind_, 0);
  if (made != nullptr) {
    made->whole_ = this;
    references_.fetch_add(1, std::memory_order_relaxed);
  }
  if (made == nullptr || !made->listed()) {
    edgemem::set_error("no memory to list a part of an arena, or it overlaps another one");
    delete made;
    return nullptr;
  }
  return made;
}

bool em_arena::listed() {
  if (whole_ == nullptr) {
    edgemem::totals().arenas.fetch_add(1, std::memory_order_relaxed);
    edgemem::totals().arena_bytes.fetch_add(size_, std::memory_order_relaxed);
  }
  if (has_parts_) {
    return true;  // blocks lie in its parts
  }
  try {
    Table& all = table();
    const std::unique_lock lock(all.mutex);
    const auto after = all.by_base.lower_bound(base_);
    if (after != all.by_base.end() && after->first < base_ + size_) {
      return false;
    }
    if (after != all.by_base.begin() && std::prev(after)->second->contains(base_)) {
      return false;
    }
    all.by_base.emplace_hint(after, base_, this);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

em_arena::~em_arena() {
  if (whole_ == nullptr) {
    edgemem::totals().arenas.fetch_sub(1, std::memory_order_relaxed);
    edgemem::totals().arena_bytes.fetch_sub(size_, std::memory_order_relaxed);
  }
  {
    Table& all = table();
    const std::unique_lock lock(all.mutex);
    const auto mine = all.by_base.find(base_);
    if (mine != all.by_base.end() && mine->second == this) {
      all.by_base.erase(mine);
    }
  }
  if (mapped_ != 0) {
    const auto page = static_cast<std::uintptr_t>(getpagesize());
    munmap(base_ - reinterpret_cast<std::uintptr_t>(base_) % page, mapped_);
  }
  if (budget_ != nullptr) {
    const auto page = static_cast<int64_t>(getpagesize());
    budget_->discharge((size_ + page - 1) / page * page);
  }
  if (whole_ != nullptr) {
    whole_->release();
  }
}

em_arena* em_arena::of(const void* block) {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  auto after = all.by_base.upper_bound(static_cast<const std::byte*>(block));
  if (after == all.by_base.begin()) {
    return nullptr;
  }
  em_arena* arena = std::prev(after)->second;
  return arena->contains(block) ? arena : nullptr;
}

bool em_arena::enter() {
  bool expected = false;
  if (has_parts_ || !entered_.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) {
    return false;
  }
  if (left() != 0) {
    entered_.store(false, std::memory_order_release);
    return false;
  }
  references_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void em_arena::leave() {
  entered_.store(false, std::memory_order_release);
  release();
}

bool em_arena::give_pages() {
  if (mapped_ == 0 || !enter()) {
    return false;
  }
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  const auto before = reinterpret_cast<std::uintptr_t>(base_) % page;
  madvise(base_ - before, static_cast<std::size_t>(size_) + before, MADV_DONTNEED);
  leave();
  return true;
}

void em_arena::poison(int64_t offset, int64_t bytes) {
  if (kind_ != edgemem::MemoryKind::host) {
    return;
  }
  auto* place = reinterpret_cast<unsigned char*>(base_ + offset);
  std::memset(place, kPattern[0], static_cast<std::size_t>(bytes));
  for (int64_t k = 1; k < bytes; k += 2) {
    place[k] = kPattern[1];
  }
}

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateRWLockReleased(const char* file, int line, const volatile void* lock, long is_write);
#endif

namespace edgemem {

em_arena* arena_of(const void* block) noexcept { return is_in_pool(block) ? nullptr : em_arena::of(block); }

void lock_arenas() { table().mutex.lock(); }

void unlock_arenas() { table().mutex.unlock(); }

void remake_arenas_lock() {
#ifdef __SANITIZE_THREAD__
  // The sanitizer would go on taking the old lock at this address for held.
  AnnotateRWLockReleased(__FILE__, __LINE__, &table().mutex, 1);
#endif
  new (&table().mutex) std::shared_mutex;
}

}  // namespace edgemem
