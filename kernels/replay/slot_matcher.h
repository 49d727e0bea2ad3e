// The rule that a request gets its planned place if it fits: it is no larger than planned, and what had to be freed
// before it has been freed.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/matcher.h"
#include "replay/replay_plan.h"

namespace edgemem {

// Requests are compared by their number in the run, so one plan serves every run whose requests are no larger than the
// plan's and are freed no later: smaller shapes as well as the largest. A request that does not fit is served by the
// heap; those after it still get their places. Frees may come in any order.
//
// Why no two places that are in use overlap: the plan keeps two requests apart unless it frees the first before the
// second is made. Requests which the plan has freed, but the run has not, are `late`; a place is given only if it
// overlaps no late one.
class SlotMatcher final : public Matcher {
 public:
  // Keeps a pointer to the plan, which must live as long as the matcher is used. False without memory.
  bool start(const em_plan& plan) noexcept;

  Match match_request(int64_t bytes, int64_t thread) noexcept override;
  Match match_free_at(int64_t offset, int64_t thread) noexcept override;

 private:
  enum class State : uint8_t { absent, placed, late };

  // More are not compared with a request: the heap serves it.
  static constexpr int64_t kMostLate = 256;

  void pass_frees() noexcept;
  bool is_taken(int64_t offset, int64_t bytes) noexcept;

  const em_plan* plan_ = nullptr;
  std::size_t next_event_ = 0;
  int64_t next_request_ = 0;
  std::vector<State> states_;   // by request
  std::vector<int64_t> bytes_;  // by request, as the run asked for; of those in the arena
  std::vector<int64_t> at_;     // by place (em_plan::place_of): the request that lay there last
  std::vector<int64_t> late_;   // requests; some may have been freed since
  int64_t late_alive_ = 0;
};

}  // namespace edgemem
