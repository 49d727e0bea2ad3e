// Addresses that a pool may grow into: reserved at once, backed by memory as far as they are opened.
#pragma once

#include <cstdint>

namespace edgemem::remat {

class AddressRange {
 public:
  // Opens `bytes` >= 0 at the beginning, and reserves as much behind them as the system lets it, up to `most`. Throws
  // std::bad_alloc.
  AddressRange(std::int64_t bytes, std::int64_t most);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  char* base() const { return base_; }
  std::int64_t opened() const { return opened_; }
  bool contains(const void* address) const;

  // Opens so many more bytes; false if there are none.
  bool grow(std::int64_t bytes) noexcept;
  // The whole pages in these bytes go back to the system; they read as zeros, or not at all, afterwards.
  void discard(std::int64_t offset, std::int64_t bytes) noexcept;
  // It grows no more: addresses behind what is open go back to the system.
  void trim() noexcept;

 private:
  char* base_ = nullptr;
  std::int64_t reserved_ = 0;
  std::int64_t opened_ = 0;
};

}  // namespace edgemem::remat
