// One piece of memory that runs take turns in, and the table that finds the arena of a pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// Counted references: the creator's, one per run, one per block that is in use. The last one frees it.
struct em_arena {
 public:
  static em_arena* create(int64_t size, bool guard);
  static em_arena* wrap(void* base, int64_t size, int32_t kind);

  // The arena that `block` lies in, or null. It stays alive at least as long as the block is in use.
  static em_arena* of(const void* block);

  std::byte* base() const { return base_; }
  int64_t size() const { return size_; }
  int32_t kind() const { return kind_; }
  int64_t left() const { return blocks_.load(std::memory_order_acquire); }
  bool contains(const void* block) const {
    const auto* place = static_cast<const std::byte*>(block);
    return place >= base_ && place < base_ + size_;
  }

  void release();
  bool enter();  // false while another run or a block of one is inside
  void leave();
  void block_taken();
  void block_freed();
  void poison(int64_t offset, int64_t bytes);

 private:
  em_arena(std::byte* base, int64_t size, int32_t kind, std::size_t mapped)
      : base_(base), size_(size), kind_(kind), mapped_(mapped) {}
  ~em_arena();
  bool listed();

  std::byte* base_;
  int64_t size_;
  int32_t kind_;
  std::size_t mapped_;  // bytes to unmap; 0 for the caller's memory
  std::atomic<int64_t> references_{1};
  std::atomic<int64_t> blocks_{0};
  std::atomic<bool> entered_{false};
};
