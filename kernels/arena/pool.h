// One pool of host memory for all requests that no arena serves, of the whole process.
//
// The system's heap keeps the pages of blocks that are freed between others, so a recorded run would cost its memory
// for good. The pool lies in address ranges of its own: neighbours that are free become one piece, the smallest piece
// that is large enough serves a request, and trim() gives the pages of all free pieces back to the system. Blocks that
// are in use then may make later ones lie further up than they would without them, and leave more pages than were in
// use at once: these are given back when the blocks are freed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace edgemem {

inline constexpr int64_t kWorthACall = 64 * 1024;  // bytes whose pages are given to the system

// What lies in the 64 bytes before every block.
struct BlockHeader;

class Pool {
 public:
  // The header of a new block whose payload of `bytes` follows it, or null if there is no memory. `bytes` is above 0
  // and at most kMostBytes.
  BlockHeader* take(int64_t bytes) noexcept;
  void give(BlockHeader* block, bool has_pages = true) noexcept;  // false after give_pages

  // Gives the pages of a block in use back to the system. Its contents are lost.
  static void give_pages(const BlockHeader& block) noexcept;

  // Gives the pages of what is free back to the system; the number of bytes given back.
  int64_t trim() noexcept;

  // Whether the address lies in the pool. Takes no lock.
  bool contains(const void* address) const noexcept;

  // For fork: no other thread is inside while the process is copied.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // A range of addresses, reserved once and never given back; its pages are.
  struct Region {
    std::byte* base = nullptr;
    int64_t reserved = 0;   // bytes of addresses
    int64_t committed = 0;  // bytes from the base that may be touched
    int64_t top = 0;        // bytes from the base that are blocks or free pieces
    BlockHeader* last = nullptr;
  };
  static constexpr std::size_t kMostRegions = 64;

  BlockHeader* grow(int64_t size) noexcept;
  bool extend(Region& region, int64_t size) noexcept;  // so that `size` more bytes may be touched at its top
  bool reserve_region(int64_t size) noexcept;
  BlockHeader* cut(BlockHeader* piece, int64_t size) noexcept;
  BlockHeader* after(const BlockHeader& block) const noexcept;  // null at the region's top
  void list(BlockHeader& piece) noexcept;
  void unlist(const BlockHeader& piece) noexcept;

  std::mutex mutex_;
  std::array<Region, kMostRegions> regions_;
  std::atomic<std::size_t> count_{0};
  std::set<std::pair<int64_t, BlockHeader*>> free_;  // by size, then by address
  int64_t live_ = 0;                                 // bytes of blocks in use
  int64_t most_live_ = 0;                            // the most there were since the last trim
  int64_t touched_ = 0;                              // of all free pieces
  int corrections_ = 0;                              // how often freed blocks may still give their pages back
};

}  // namespace edgemem
