// One run at a time, recorded or replayed on the thread that began it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arena/arena.h"
#include "arena/blocks.h"
#include "replay/edgemem_arena.h"
#include "replay/replay_plan.h"

struct em_context {
 public:
  explicit em_context(int32_t kind);
  ~em_context();
  em_context(const em_context&) = delete;
  em_context& operator=(const em_context&) = delete;

  // The one that is active on this thread for a kind of memory, or null.
  static em_context* active(int32_t kind);

  int32_t begin_record(int64_t most_events);
  int32_t begin_replay(em_plan* plan, em_arena* arena, bool poison);
  int32_t end(em_stats& out);
  bool running() const { return mode_ != Mode::idle; }
  const std::vector<em_event>& events() const { return recorded_; }

  void* allocate(std::size_t bytes);
  void free(void* block);

 private:
  enum class Mode { idle, recording, replaying };

  int32_t begin(Mode mode);
  void note(int64_t size, int64_t request);
  void* expected(int64_t bytes, bool& planned);
  bool freed_as_planned(const void* block);
  void deviate();
  void grew();

  int32_t kind_;
  edgemem::Blocks& blocks_;
  Mode mode_ = Mode::idle;
  int64_t run_ = 0;
  int64_t thread_ = 0;
  int64_t began_ns_ = 0;
  std::size_t most_events_ = 0;
  std::vector<em_event> recorded_;
  em_plan* plan_ = nullptr;
  em_arena* arena_ = nullptr;
  bool poison_ = false;
  std::size_t cursor_ = 0;
  int64_t in_arena_ = 0;  // bytes
  int64_t in_heap_ = 0;
  em_stats stats_{};
};
