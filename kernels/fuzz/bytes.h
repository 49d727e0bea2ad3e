// A case of a fuzzer, read from its begin as the numbers and choices that a call takes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

// Ends the run where something does not hold that should hold for every case.
#define HOLDS(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// The bytes of a case. At their end there are zeros.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data, size) {}

  bool is_empty() const { return data_.empty(); }

  std::uint8_t octet() {
    if (data_.empty()) return 0;
    const std::uint8_t first = data_.front();
    data_ = data_.subspan(1);
    return first;
  }

  // From 0 to limit - 1.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : octet() % limit; }

  // Mostly a small number; else one where a type ends, or any.
  std::int64_t number() {
    static constexpr std::array<std::int64_t, 16> kEdges{0,
                                                         1,
                                                         -1,
                                                         63,
                                                         64,
                                                         4096,
                                                         INT32_MAX,
                                                         std::int64_t{1} << 32,
                                                         std::int64_t{1} << 40,
                                                         std::int64_t{1} << 55,
                                                         std::int64_t{1} << 56,
                                                         (std::int64_t{1} << 56) + 1,
                                                         std::int64_t{1} << 62,
                                                         INT64_MAX,
                                                         INT64_MIN,
                                                         INT64_MAX - 63};
    const std::uint8_t kind = octet();
    if (kind < 160) return kind;
    if (kind < 208) return static_cast<std::int64_t>(octet()) << (kind % 8);
    if (kind < 240) return kEdges[kind % kEdges.size()];
    std::int64_t value = 0;
    for (int k = 0; k < 8; ++k) value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | octet());
    return value;
  }

  std::vector<std::int64_t> numbers(std::size_t count) {
    std::vector<std::int64_t> values(count);
    for (std::int64_t& value : values) value = number();
    return values;
  }

 private:
  std::span<const std::uint8_t> data_;
};
