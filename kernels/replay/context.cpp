#include "replay/context.h"

#include <algorithm>
#include <atomic>

#include "arena/totals.h"

using edgemem::Match;

namespace {

std::atomic<int64_t> runs{0};

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
    recorder_.start(static_cast<std::size_t>(std::max<int64_t>(most_events, 0)));
  }
  return status;
}

int32_t em_context::begin_replay(em_plan& plan, em_arena& arena, bool poison) noexcept {
  if (arena.kind() != kind_ || arena.size() < plan.size() ||
      reinterpret_cast<std::uintptr_t>(arena.base()) % static_cast<std::uintptr_t>(plan.alignment()) != 0) {
    edgemem::set_error("the plan needs %lld bytes aligned to %lld, in memory of the context's kind; the arena has %lld",
                       static_cast<long long>(plan.size()), static_cast<long long>(plan.alignment()),
                       static_cast<long long>(arena.size()));
    return EM_REFUSED;
  }
  if (!arena.enter()) {
    edgemem::set_error("the arena is in use: by another run, or by a result that outlived its run");
    return EM_BUSY;
  }
  const int32_t status = begin(Mode::replaying);
  if (status != EM_OK) {
    arena.leave();
    return status;
  }
  plan.retain();
  plan_ = &plan;
  arena_ = &arena;
  poison_ = poison;
  in_order_.start(plan);
  matcher_ = &in_order_;
  if (poison) {
    arena.poison(0, arena.size());
  }
  return EM_OK;
}

em_stats em_context::end() noexcept {
  em_stats summary;
  if (mode_ == Mode::replaying) {
    if (!matcher_->is_complete()) {
      deviate();  // the run ended early
    }
    summary = statistics_.summary(matcher_->matched(), arena_->left());
    arena_->leave();
    plan_->release();
    matcher_ = nullptr;
    arena_ = nullptr;
    plan_ = nullptr;
  } else {
    summary = statistics_.summary(static_cast<int64_t>(recorder_.events().size()), 0);
  }
  mode_ = Mode::idle;
  return summary;
}

void* em_context::allocate(std::size_t bytes, int64_t thread) noexcept {
  int64_t request = statistics_.count_request();
  if (is_matching() && !edgemem::is_above_most(bytes)) {
    const auto size = static_cast<int64_t>(bytes);
    const Match match = matcher_->match_request(size, thread);
    if (match.has_place()) {
      statistics_.take_place(match.offset, size);
      arena_->block_taken();
      return arena_->base() + match.offset;
    }
    if (match.is_deviation()) {
      deviate();
    } else {
      request = match.request;
    }
  }
  void* block = blocks_.take(bytes, {run_, request});
  if (block == nullptr) {
    statistics_.count_failure();
    deviate();
    return nullptr;
  }
  const auto size = static_cast<int64_t>(bytes);  // take() has refused what does not fit
  statistics_.take_block(size);
  if (mode_ == Mode::recording && !recorder_.note_request(size, request, thread)) {
    statistics_.count_failure();
  }
  return block;
}

void em_context::free(void* block, int64_t thread) noexcept {
  em_arena* home = arena_ != nullptr && arena_->contains(block) ? arena_ : em_arena::of(block);
  if (home != nullptr) {
    free_in_arena(*home, block, thread);
    return;
  }
  const edgemem::Freed was = blocks_.give(block);
  if (was.origin.run != run_) {
    return;  // of an earlier run, of another context's, or of none
  }
  statistics_.free_block(was.bytes);
  if (mode_ == Mode::recording) {
    if (!recorder_.note_free(was.origin.request, thread)) {
      statistics_.count_failure();
    }
  } else if (is_matching() && matcher_->match_free_of(was.origin.request, thread).is_deviation()) {
    deviate();
  }
}

void em_context::free_in_arena(em_arena& home, const void* block, int64_t thread) noexcept {
  if (&home == arena_ && is_matching()) {
    const int64_t offset = static_cast<const std::byte*>(block) - home.base();
    const Match match = matcher_->match_free_at(offset, thread);
    if (match.is_deviation()) {
      deviate();
    } else {
      const int64_t bytes = plan_->bytes(match.request);
      statistics_.free_place(bytes);
      if (poison_) {
        home.poison(offset, bytes);
      }
    }
  }
  home.block_freed();
}

void em_context::deviate() noexcept {
  if (mode_ == Mode::replaying) {
    statistics_.deviate(matcher_->matched());
  }
}
