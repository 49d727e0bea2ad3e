// What the whole library holds, and its errors' texts.
#pragma once

#include <atomic>
#include <cstdint>

namespace edgemem {

struct Totals {
  std::atomic<int64_t> contexts{0};
  std::atomic<int64_t> arenas{0};
  std::atomic<int64_t> arena_bytes{0};
  std::atomic<int64_t> heap_live{0};
  std::atomic<int64_t> heap_peak{0};
  std::atomic<int64_t> reserve_live{0};
  std::atomic<int64_t> outside{0};
};

Totals& totals();
void count_heap(int64_t bytes);  // negative when freed

// False once the allowance that a test set is used up.
bool system_may_give();
void set_allowance(int64_t count);

void set_error(const char* format, ...) __attribute__((format(printf, 1, 2)));
const char* last_error();

}  // namespace edgemem
