// A cap on the host memory that one user of the library holds: arenas, and blocks outside them.
#pragma once

#include <atomic>
#include <cstdint>

// Freed with its last reference: there is one for the creator, and one for each arena and block that counts in it.
struct em_budget {
 public:
  explicit em_budget(int64_t most) : most_(most) {}

  // False, with the error set and the need noted for the calling thread, if there would be more than the cap. Adds a
  // reference otherwise.
  bool charge(int64_t bytes) noexcept;
  void discharge(int64_t bytes) noexcept;
  void release() noexcept;
  int64_t held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  const int64_t most_;
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> references_{1};
};

namespace edgemem {

// What the calling thread takes counts in this one; null for none. The caller keeps it alive meanwhile.
em_budget* budget_here() noexcept;
em_budget* enter_budget(em_budget* budget) noexcept;  // the one before

// What a budget would have held with the request that it refused last on the calling thread; 0 for none since the last
// call.
int64_t take_refused() noexcept;

}  // namespace edgemem
