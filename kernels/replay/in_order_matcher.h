// The rule that every event comes exactly where the plan has it: the same sizes, the same frees, the same order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "replay/matcher.h"
#include "replay/replay_plan.h"

namespace edgemem {

// The thread of an event makes no difference.
class InOrderMatcher final : public Matcher {
 public:
  // Begins a run. The plan must outlive it.
  void start(const em_plan& plan) noexcept;

  Match match_request(int64_t bytes, int64_t thread) noexcept override;
  Match match_free_at(int64_t offset, int64_t thread) noexcept override;
  Match match_free_of(int64_t request, int64_t thread) noexcept override;
  int64_t matched() const noexcept override { return static_cast<int64_t>(next_event_); }
  bool is_complete() const noexcept override { return next_event_ == plan_->events().size(); }

 private:
  // The request that the plan frees next, or -1 if its next event is not a free.
  int64_t next_free() const noexcept;

  const em_plan* plan_ = nullptr;
  std::size_t next_event_ = 0;
  int64_t next_request_ = 0;
};

}  // namespace edgemem
