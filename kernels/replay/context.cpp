#include "replay/context.h"

#include <algorithm>
#include <atomic>

#include "arena/totals.h"

using edgemem::Match;

namespace {

std::atomic<int64_t> runs{0};

constexpr std::size_t kMostEvents = std::size_t{1} << 20;  // of a recorded replay

}  // namespace

em_context::em_context(edgemem::MemoryKind kind) : kind_(kind), blocks_(edgemem::blocks_of(kind)) {
  edgemem::totals().contexts.fetch_add(1, std::memory_order_relaxed);
}

em_context::~em_context() { edgemem::totals().contexts.fetch_sub(1, std::memory_order_relaxed); }

int32_t em_context::begin(Mode mode) noexcept {
  if (is_running()) {
    edgemem::set_error("a run is active in this context already; end it first");
    return EM_BUSY;
  }
  mode_ = mode;
  run_ = runs.fetch_add(1, std::memory_order_relaxed) + 1;
  statistics_.start();
  recorder_.clear();
  return EM_OK;
}

int32_t em_context::begin_record(int64_t most_events) noexcept {
  const int32_t status = begin(Mode::recording);
  if (status == EM_OK) {
    recording_ = true;
    recorder_.start(static_cast<std::size_t>(std::max<int64_t>(most_events, 0)));
  }
  return status;
}

int32_t em_context::begin_replay(em_plan& plan, em_arena& arena, bool poison, bool record) noexcept {
  if (arena.kind() != kind_ || arena.size() < plan.size() ||
      reinterpret_cast<std::uintptr_t>(arena.base()) % static_cast<std::uintptr_t>(plan.alignment()) != 0) {
    edgemem::set_error("the plan needs %lld bytes aligned to %lld, in memory of the context's kind; the arena has %lld",
                       static_cast<long long>(plan.size()), static_cast<long long>(plan.alignment()),
                       static_cast<long long>(arena.size()));
    return EM_REFUSED;
  }
  if (!arena.enter()) {
    edgemem::set_error(arena.has_parts() ? "the arena was made with EM_PARTS: give a part of it (em_arena_part)"
                                         : "the arena is in use: by another run, or by a result that outlived its run");
    return EM_BUSY;
  }
  int32_t status = begin(Mode::replaying);
  if (status == EM_OK && !slots_.start(plan)) {
    edgemem::set_error("no memory for a run of %zu requests", plan.requests());
    mode_ = Mode::idle;
    status = EM_NO_MEMORY;
  }
  if (status != EM_OK) {
    arena.leave();
    return status;
  }
  plan.retain();
  plan_ = &plan;
  arena_ = &arena;
  poison_ = poison;
  recording_ = record;
  if (record) {
    recorder_.start(kMostEvents);
  }
  matcher_ = &slots_;
  if (poison) {
    arena.poison(0, arena.size());
  }
  return EM_OK;
}

em_stats em_context::end() noexcept {
  const em_stats summary = statistics_.summary(arena_ == nullptr ? 0 : arena_->left());
  recent_peak_ = std::max(recent_peak_, summary.peak);
  if (mode_ == Mode::replaying) {
    arena_->leave();
    plan_->release();
    matcher_ = nullptr;
    arena_ = nullptr;
    plan_ = nullptr;
  }
  mode_ = Mode::idle;
  recording_ = false;
  return summary;
}

void* em_context::allocate(std::size_t bytes, int64_t thread) noexcept {
  const int64_t request = statistics_.count_request();
  const int64_t size = edgemem::is_above_most(bytes) ? INT64_MAX : static_cast<int64_t>(bytes);
  Match match;
  if (mode_ == Mode::replaying) {
    match = matcher_->match_request(size, thread);
    if (match.is_deviation()) {
      statistics_.deviate();
    }
  }
  void* block = nullptr;
  if (match.has_place()) {
    statistics_.take_place(match.offset, size);
    arena_->block_taken();
    block = arena_->base() + match.offset;
  } else {
    block = blocks_.take(bytes, {run_, request});
    if (block == nullptr) {
      statistics_.count_failure();
      return nullptr;
    }
    statistics_.take_block(size);
  }
  statistics_.count_event();
  if (recording_ && !recorder_.note_request(size, request, thread)) {
    statistics_.count_failure();
  }
  return block;
}

void em_context::free(void* block, int64_t thread) noexcept {
  em_arena* home = arena_ != nullptr && arena_->contains(block) ? arena_ : edgemem::arena_of(block);
  if (home != nullptr) {
    free_in_arena(*home, block, thread);
    return;
  }
  const edgemem::Freed was = blocks_.give(block);
  if (was.origin.run == run_) {  // else of an earlier run, of another context's, or of none
    statistics_.free_block(was.bytes);
    note_free(was.origin.request, thread);
  }
}

void em_context::free_in_arena(em_arena& home, const void* block, int64_t thread) noexcept {
  if (&home == arena_) {
    const int64_t offset = static_cast<const std::byte*>(block) - home.base();
    const Match match = matcher_->match_free_at(offset, thread);
    if (!match.is_deviation()) {
      statistics_.free_place(match.bytes);
      note_free(match.request, thread);
      if (poison_) {
        home.poison(offset, plan_->bytes(match.request));
      }
    }
  }
  home.block_freed();
}

void em_context::note_free(int64_t request, int64_t thread) noexcept {
  statistics_.count_event();
  if (recording_ && !recorder_.note_free(request, thread)) {
    statistics_.count_failure();
  }
}
