// One model's runs, and the plan that each follows. edgemem_android.h describes the policy.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "android/edgemem_android.h"
#include "android/plan_file.h"

// Not safe for several threads at once.
struct em_session {
 public:
  // Throws std::bad_alloc. A plan of the file that cannot be made is passed over.
  em_session(edgemem::SharedPlanSets file, std::int32_t flags);
  em_session(const em_session&) = delete;
  em_session& operator=(const em_session&) = delete;

  bool is_running() const { return running_; }
  std::int32_t begin() noexcept;
  std::int32_t end(em_run* out) noexcept;
  const std::vector<edgemem::PlacedRecord>& places() const;

 private:
  struct Release {
    void operator()(em_plan* plan) const { em_plan_release(plan); }
    void operator()(em_arena* arena) const { em_arena_release(arena); }
    void operator()(em_context* context) const { em_context_destroy(context); }
  };
  using SharedPlanSet = std::shared_ptr<const edgemem::PlanSet>;

  std::int32_t begin_planned() noexcept;
  void drop_plan() noexcept;
  bool is_candidate(const edgemem::PlanSet& set) const;
  em_run report_of(const em_stats& stats) const;
  void choose(const em_stats& stats);
  SharedPlanSet better_for(const std::vector<std::int64_t>& codes) const;
  bool follow(SharedPlanSet set, std::int32_t source);

  edgemem::SharedPlanSets file_;
  std::int32_t flags_;
  std::unique_ptr<em_context, Release> context_;
  SharedPlanSet set_;                       // null without a plan
  std::int32_t source_ = EM_RAN_RECORDED;   // of set_
  std::unique_ptr<em_plan, Release> plan_;  // of set_
  std::unique_ptr<em_arena, Release> arena_;
  bool running_ = false;
  std::vector<const edgemem::PlanSet*> too_large_;  // of the file's; has room for all of them
  std::int64_t replans_ = 0;
  std::int64_t in_vain_ = 0;  // of these, less the runs that came as planned since, but not below 0
};
