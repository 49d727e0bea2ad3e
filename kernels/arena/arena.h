// One piece of memory that runs take turns in, and the table that finds the arena of a pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arena/budget.h"
#include "arena/memory.h"

// It is freed with its last reference. There is one for the creator, one for each run that is inside and one for each
// block that is in use.
struct em_arena {
 public:
  // Null, with the error set, if the size is impossible, there is no memory, or the thread's budget has no room for it.
  // An arena of 0 bytes has 1. In an arena of parts nothing runs but in its parts.
  static em_arena* create(int64_t size, bool guard, bool has_parts);
  // Null, with the error set, if the size is impossible or another arena has some of these bytes.
  static em_arena* wrap(void* base, int64_t size, edgemem::MemoryKind kind);

  // A part of an arena of parts, which stays alive as long. Null, with the error set, if the arena has no such bytes,
  // or another part has some of them.
  em_arena* part(int64_t offset, int64_t size);

  // The arena that `block` lies in, or null. It stays alive at least as long as the block is in use.
  static em_arena* of(const void* block);

  std::byte* base() const { return base_; }
  int64_t size() const { return size_; }
  edgemem::MemoryKind kind() const { return kind_; }
  int64_t left() const { return blocks_.load(std::memory_order_acquire); }
  bool contains(const void* block) const {
    const auto* place = static_cast<const std::byte*>(block);
    return place >= base_ && place < base_ + size_;
  }

  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }
  bool has_parts() const { return has_parts_; }  // runs use parts of it, and never the arena itself
  bool enter();                                  // false while another run or a block of one is inside
  void leave();
  // Gives the pages to the system; the contents are lost. False while a run or a block is inside.
  bool give_pages();
  void block_taken() {
    references_.fetch_add(1, std::memory_order_relaxed);
    blocks_.fetch_add(1, std::memory_order_relaxed);
  }
  void block_freed() {
    blocks_.fetch_sub(1, std::memory_order_release);
    release();
  }
  // A loop places the blocks of one stream in it, whose work may go on after they are freed: until the program has
  // waited for it, other streams stay out. The lock of the loop's device is held.
  bool is_open_to(void* stream) const { return !has_stream_ || stream == stream_; }
  void* stream() const { return stream_; }
  void set_stream(void* stream) {
    has_stream_ = true;
    stream_ = stream;
  }
  void forget_stream() { has_stream_ = false; }
  // Fills a range of host memory with a pattern; does nothing to device memory.
  void poison(int64_t offset, int64_t bytes);

 private:
  em_arena(std::byte* base, int64_t size, edgemem::MemoryKind kind, std::size_t mapped)
      : base_(base), size_(size), kind_(kind), mapped_(mapped) {}
  ~em_arena();
  static em_arena* map(std::size_t needed, std::size_t pages, std::size_t guard, bool has_parts);
  bool listed();

  std::byte* base_;
  int64_t size_;
  edgemem::MemoryKind kind_;
  std::size_t mapped_;  // bytes to unmap; 0 for the caller's memory
  std::atomic<int64_t> references_{1};
  std::atomic<int64_t> blocks_{0};
  std::atomic<bool> entered_{false};
  bool has_stream_ = false;
  void* stream_ = nullptr;
  em_budget* budget_ = nullptr;  // that it counts in, or null
  bool has_parts_ = false;
  em_arena* whole_ = nullptr;  // that it is a part of, or null
};

namespace edgemem {

// The arena that a block lies in, or null: what em_arena::of says, without its lock where the block is the pool's.
em_arena* arena_of(const void* block) noexcept;

// Around a fork: no other thread is inside while the process is copied. A child cannot unlock what its parent locked as
// another thread, so it makes the lock anew.
void lock_arenas();
void unlock_arenas();
void remake_arenas_lock();

}  // namespace edgemem
