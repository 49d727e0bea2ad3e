// SplitMix64 (Steele, Lea & Flood 2014): one step of the generator, used as a hash and to derive seeds.
#pragma once

#include <cstdint>

namespace edgemem {

// The output of SplitMix64 in state `x`: a bijection of 64-bit numbers that sends near numbers far apart.
inline std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace edgemem
