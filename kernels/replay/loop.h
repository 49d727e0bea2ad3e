// One program that repeats itself: joins threads, a matcher, a recorder, statistics and the arenas of a device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "arena/arena.h"
#include "arena/blocks.h"
#include "replay/edgemem_arena.h"
#include "replay/loop_arena.h"
#include "replay/loop_device.h"
#include "replay/loop_matcher.h"
#include "replay/loop_recorder.h"
#include "replay/loop_slots.h"
#include "replay/loop_statistics.h"
#include "replay/loop_threads.h"

// Everything is called with the lock of the device held, except enter() and device(), which are safe at any time.
struct em_loop {
 public:
  explicit em_loop(edgemem::LoopDevice& device) : device_(device) {}
  em_loop(const em_loop&) = delete;
  em_loop& operator=(const em_loop&) = delete;

  edgemem::LoopDevice& device() { return device_; }

  // What the C ABI says of em_loop_*. EM_OK, or another code with the error set and nothing changed.
  int32_t start() noexcept;
  void stop() noexcept;
  int32_t record(int64_t most_events) noexcept;
  int32_t replay(std::shared_ptr<const edgemem::LoopSlots> slots, em_arena& arena, bool poison) noexcept;
  int32_t begin() noexcept;
  int32_t end() noexcept;
  int32_t pause() noexcept;
  int32_t resume() noexcept;
  void enter(int64_t section) noexcept;

  // Ends the record.
  const std::vector<em_loop_event>& events() noexcept;
  void forget_events() noexcept;
  const edgemem::LoopStatistics& statistics() const { return statistics_; }

  // The run whose blocks may be asked for again; 0 if no plan is followed. What was made before the plan is made once
  // more in the arena, so memory for both would be held without end.
  int64_t run_of_plan() const { return matcher_.slots() == nullptr ? 0 : run_; }

  // Only while it is active. Null, with the error set, if the request cannot be served.
  void* allocate(int64_t bytes, void* stream) noexcept;
  // A block was freed, which this loop made or another one.
  void freed(const edgemem::Freed& was, bool was_in_arena, void* stream) noexcept;

 private:
  // A place in the arena, or none and what to count.
  struct Placed {
    void* block = nullptr;
    edgemem::LoopStatistics::Count outcome = &em_loop_stats::misses;
  };

  bool is_active() const { return session_ != 0; }
  bool is_host() const { return device_.number() == EM_HOST_MEMORY; }
  edgemem::LoopThread* thread_of_request() noexcept;
  edgemem::SectionEntry entry_of(const edgemem::LoopThread* thread) const noexcept;
  int64_t stream_number(void* stream) noexcept;
  edgemem::EventPlace place_of_event(const edgemem::LoopThread* thread, void* stream) noexcept;
  Placed place(int64_t bytes, int64_t lane, edgemem::SectionEntry entry, void* stream, edgemem::Origin origin) noexcept;
  void count(edgemem::LoopStatistics::Count outcome, int64_t bytes) noexcept;
  void leave_if_unused(edgemem::LoopArena* arena) noexcept;

  edgemem::LoopDevice& device_;
  // Numbers below 0, which no context's run has. A session has one for each plan, from the first one downwards; on this
  // device, no other session has numbers between.
  int64_t session_ = 0;  // the first one; 0: not active
  int64_t run_ = 0;      // the last one
  int64_t paused_ = 0;
  bool is_in_iteration_ = false;
  std::atomic<int64_t> iteration_{0};  // a new number for each iteration of this loop
  std::atomic<int64_t> entries_{0};    // of sections

  edgemem::LoopThreads threads_;
  int64_t lanes_ = 0;           // of threads in this session
  std::vector<void*> streams_;  // by number, of this session
  edgemem::LoopMatcher matcher_;
  edgemem::LoopRecorder recorder_;
  edgemem::LoopStatistics statistics_;

  edgemem::LoopArena* arena_ = nullptr;                   // that requests are placed in
  std::shared_ptr<const edgemem::LoopSlots> next_slots_;  // from the next iteration on; null: no change
  edgemem::LoopArena* next_arena_ = nullptr;
  bool next_poison_ = false;
};
