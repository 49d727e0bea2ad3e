// A source of segments that are numbers only, and that notes what it gave.
#pragma once

#include <cstdint>
#include <map>

#include "caching/segment_source.h"
#include "tests/check.h"

class Segments final : public edgemem::SegmentSource {
 public:
  explicit Segments(std::int64_t capacity = std::int64_t{1} << 60) : capacity_(capacity) {}

  std::uintptr_t take(std::int64_t bytes) noexcept override {
    CHECK(bytes > 0 && bytes % (std::int64_t{2} << 20) == 0);
    if (bytes > capacity_ - held) return 0;
    held += bytes;
    const std::uintptr_t address = reserve(bytes);
    taken[address] = bytes;
    return address;
  }
  void give(std::uintptr_t address, std::int64_t bytes) noexcept override {
    CHECK(taken.at(address) == bytes);
    taken.erase(address);
    held -= bytes;
  }
  std::uintptr_t reserve(std::int64_t bytes) noexcept override {
    const std::uintptr_t address = next_;
    next_ += static_cast<std::uintptr_t>(bytes) + (std::uintptr_t{2} << 20);
    return address;
  }
  std::int64_t held = 0;
  std::map<std::uintptr_t, std::int64_t> taken;  // size by address

 private:
  std::int64_t capacity_;
  std::uintptr_t next_ = std::uintptr_t{1} << 32;
};
