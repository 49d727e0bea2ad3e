// One run at a time, recorded or replayed: joins a kind of memory, a recorder or matcher, an arena and statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "arena/blocks.h"
#include "arena/memory.h"
#include "replay/edgemem_arena.h"
#include "replay/matcher.h"
#include "replay/recorder.h"
#include "replay/replay_plan.h"
#include "replay/run_statistics.h"
#include "replay/slot_matcher.h"

// Belongs to no thread: context_binding.h decides whose requests it serves. Not safe for several threads at once.
struct em_context {
 public:
  explicit em_context(edgemem::MemoryKind kind);
  ~em_context();
  em_context(const em_context&) = delete;
  em_context& operator=(const em_context&) = delete;

  edgemem::MemoryKind kind() const { return kind_; }
  bool is_running() const { return mode_ != Mode::idle; }

  // EM_OK, or another code with the error set and nothing changed.
  int32_t begin_record(int64_t most_events) noexcept;
  int32_t begin_replay(em_plan& plan, em_arena& arena, bool poison, bool record) noexcept;

  // Only while a run is on. `thread` is the number of the thread that asks.
  void* allocate(std::size_t bytes, int64_t thread) noexcept;  // null, with the error set, if it cannot be served
  void free(void* block, int64_t thread) noexcept;
  em_stats end() noexcept;

  // Of the last run, if it was recorded.
  const std::vector<em_event>& events() const { return recorder_.events(); }
  void forget_events() { recorder_.clear(); }
  // The largest `peak` of the runs that have ended since the last call.
  int64_t take_recent_peak() noexcept { return std::exchange(recent_peak_, 0); }

 private:
  enum class Mode { idle, recording, replaying };

  int32_t begin(Mode mode) noexcept;
  void note_free(int64_t request, int64_t thread) noexcept;
  void free_in_arena(em_arena& home, const void* block, int64_t thread) noexcept;

  edgemem::MemoryKind kind_;
  edgemem::Blocks& blocks_;
  Mode mode_ = Mode::idle;
  int64_t run_ = 0;  // a number that no other run of the process has
  edgemem::RunStatistics statistics_;
  int64_t recent_peak_ = 0;
  edgemem::Recorder recorder_;
  // While replaying, else null. Another rule is another class beside the one below, chosen by begin_replay.
  edgemem::Matcher* matcher_ = nullptr;
  edgemem::SlotMatcher slots_;
  em_plan* plan_ = nullptr;
  em_arena* arena_ = nullptr;
  bool poison_ = false;
  bool recording_ = false;  // also while replaying, if that was asked for
};
