// A 64-bit number, mixed so that near ones end far apart: the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
#pragma once

#include <cstdint>

namespace edgemem::objects {

inline std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace edgemem::objects
