#include "arena/totals.h"

#include <cstdarg>
#include <cstdio>

namespace edgemem {

namespace {

std::atomic<int64_t> allowance{-1};
thread_local char error[512];

}  // namespace

Totals& totals() {
  static Totals all;
  return all;
}

void count_heap(int64_t bytes) {
  Totals& all = totals();
  const int64_t now = all.heap_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = all.heap_peak.load(std::memory_order_relaxed);
  while (now > peak && !all.heap_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

bool system_may_give() {
  int64_t left = allowance.load(std::memory_order_relaxed);
  while (left > 0 && !allowance.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left != 0;
}

void set_allowance(int64_t count) { allowance.store(count < 0 ? -1 : count, std::memory_order_relaxed); }

void set_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error, sizeof error, format, arguments);
  va_end(arguments);
}

const char* last_error() { return error; }

}  // namespace edgemem
