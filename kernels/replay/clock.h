// The time of a recorded event.
#pragma once

#include <chrono>
#include <cstdint>

namespace edgemem {

inline std::int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace edgemem
