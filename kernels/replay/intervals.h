// A piece of an arena.
#pragma once

#include <cstdint>

namespace edgemem {

struct Interval {  // half-open, in bytes
  int64_t begin = 0;
  int64_t end = 0;
};

}  // namespace edgemem
