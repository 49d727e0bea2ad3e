// What GCC, Clang and clang-cl do and C++20 has no word for; a compiler without these builtins needs this file alone.
#pragma once

#include <cstdint>

namespace edgemem {

// Begins to read the cache line of an address, which need not be valid.
inline void prefetch(const void* address) { __builtin_prefetch(address); }

// Whether the result does not fit into 64 bits; it wraps round then.
inline bool add_overflows(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  return __builtin_add_overflow(a, b, sum);
}
inline bool multiply_overflows(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return __builtin_mul_overflow(a, b, product);
}

}  // namespace edgemem
