#include "arena/budget.h"

#include "arena/totals.h"

namespace {

constinit thread_local em_budget* here = nullptr;
constinit thread_local int64_t refused = 0;

}  // namespace

bool em_budget::charge(int64_t bytes) noexcept {
  int64_t now = held_.load(std::memory_order_relaxed);
  do {
    if (bytes > most_ - now) {
      refused = now + bytes;
      edgemem::set_error("%lld bytes would be held, %lld are allowed", static_cast<long long>(now + bytes),
                         static_cast<long long>(most_));
      return false;
    }
  } while (!held_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  references_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void em_budget::discharge(int64_t bytes) noexcept {
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  release();
}

void em_budget::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

namespace edgemem {

em_budget* budget_here() noexcept { return here; }

em_budget* enter_budget(em_budget* budget) noexcept {
  em_budget* before = here;
  here = budget;
  return before;
}

int64_t take_refused() noexcept {
  const int64_t was = refused;
  refused = 0;
  return was;
}

}  // namespace edgemem
