#include "replay/context.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "arena/totals.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

thread_local em_context* current[2] = {nullptr, nullptr};
std::atomic<int64_t> runs{0};

int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t this_thread() {
#ifdef __linux__
  return static_cast<int64_t>(syscall(SYS_gettid));
#else
  return static_cast<int64_t>(std::hash<std::thread::id>{}(std::this_thread::get_id()) >> 1);
#endif
}

}  // namespace

em_context::em_context(int32_t kind)
    : kind_(kind), blocks_(kind == EM_HOST ? edgemem::host_blocks() : edgemem::device_blocks()) {
  edgemem::totals().contexts.fetch_add(1, std::memory_order_relaxed);
}

em_context::~em_context() { edgemem::totals().contexts.fetch_sub(1, std::memory_order_relaxed); }

em_context* em_context::active(int32_t kind) { return current[kind]; }

int32_t em_context::begin(Mode mode) {
  if (running() || current[kind_] != nullptr) {
    edgemem::set_error("a run is active on this thread or in this context already");
    return EM_BUSY;
  }
  mode_ = mode;
  run_ = runs.fetch_add(1, std::memory_order_relaxed) + 1;
  std::vector<em_event>().swap(recorded_);  // the last record is of no use now, nor is its room
  cursor_ = 0;
  in_arena_ = in_heap_ = 0;
  stats_ = {};
  stats_.bail = -1;
  current[kind_] = this;
  return EM_OK;
}

int32_t em_context::begin_record(int64_t most_events) {
  const int32_t status = begin(Mode::recording);
  if (status == EM_OK) {
    most_events_ = static_cast<std::size_t>(std::max<int64_t>(most_events, 0));
    thread_ = this_thread();
    began_ns_ = now_ns();
  }
  return status;
}

int32_t em_context::begin_replay(em_plan* plan, em_arena* arena, bool poison) {
  if (arena->kind() != kind_ || arena->size() < plan->size() ||
      reinterpret_cast<std::uintptr_t>(arena->base()) % static_cast<std::uintptr_t>(plan->alignment()) != 0) {
    edgemem::set_error("the plan needs %lld bytes aligned to %lld, in memory of the context's kind; the arena has %lld",
                       static_cast<long long>(plan->size()), static_cast<long long>(plan->alignment()),
                       static_cast<long long>(arena->size()));
    return EM_REFUSED;
  }
  if (!arena->enter()) {
    edgemem::set_error("the arena is in use: by another run, or by a result that outlived its run");
    return EM_BUSY;
  }
  const int32_t status = begin(Mode::replaying);
  if (status != EM_OK) {
    arena->leave();
    return status;
  }
  plan->retain();
  plan_ = plan;
  arena_ = arena;
  poison_ = poison;
  if (poison) {
    arena->poison(0, arena->size());
  }
  return EM_OK;
}

int32_t em_context::end(em_stats& out) {
  if (!running() || current[kind_] != this) {
    edgemem::set_error("this context is not active on this thread");
    return EM_REFUSED;
  }
  current[kind_] = nullptr;
  if (mode_ == Mode::replaying) {
    if (cursor_ != plan_->events().size()) {
      deviate();  // the run ended early
    }
    stats_.events = static_cast<int64_t>(cursor_);
    stats_.left = arena_->left();
    arena_->leave();
    plan_->release();
    arena_ = nullptr;
    plan_ = nullptr;
  } else {
    stats_.events = static_cast<int64_t>(recorded_.size());
  }
  mode_ = Mode::idle;
  out = stats_;
  return EM_OK;
}

void* em_context::allocate(std::size_t bytes) {
  const int64_t request = stats_.requests++;
  const auto size = static_cast<int64_t>(bytes);
  if (mode_ == Mode::replaying && stats_.bail < 0) {
    bool planned = false;
    if (void* place = expected(size, planned)) {
      return place;
    }
    if (!planned) {
      deviate();
    }
  }
  void* block = blocks_.take(bytes, {run_, request});
  if (block == nullptr) {
    ++stats_.failed;
    if (mode_ == Mode::replaying) {
      deviate();
    }
    return nullptr;
  }
  ++stats_.misses;
  in_heap_ += size;
  grew();
  if (mode_ == Mode::recording) {
    note(size, request);
  }
  return block;
}

void* em_context::expected(int64_t bytes, bool& planned) {
  const auto events = plan_->events();
  if (cursor_ == events.size() || events[cursor_] != bytes) {
    return nullptr;
  }
  planned = true;
  ++cursor_;
  const int64_t offset = plan_->offset(stats_.requests - 1);
  if (offset < 0) {
    return nullptr;
  }
  ++stats_.hits;
  stats_.arena_top = std::max(stats_.arena_top, offset + bytes);
  in_arena_ += bytes;
  grew();
  arena_->block_taken();
  return arena_->base() + offset;
}

void em_context::free(void* block) {
  em_arena* home = arena_ != nullptr && arena_->contains(block) ? arena_ : em_arena::of(block);
  if (home != nullptr) {
    if (home == arena_ && stats_.bail < 0 && !freed_as_planned(block)) {
      deviate();
    }
    home->block_freed();
    return;
  }
  const edgemem::Freed was = blocks_.give(block);
  if (was.origin.run != run_) {
    return;  // of an earlier run, or of none
  }
  in_heap_ -= was.bytes;
  if (mode_ == Mode::recording) {
    note(0, was.origin.request);
  } else if (stats_.bail < 0) {
    const auto events = plan_->events();
    if (cursor_ < events.size() && events[cursor_] == -was.origin.request - 1) {
      ++cursor_;
    } else {
      deviate();
    }
  }
}

bool em_context::freed_as_planned(const void* block) {
  const auto events = plan_->events();
  if (cursor_ == events.size() || events[cursor_] >= 0) {
    return false;
  }
  const int64_t request = -(events[cursor_] + 1);
  const int64_t offset = plan_->offset(request);
  if (offset < 0 || arena_->base() + offset != block) {
    return false;
  }
  ++cursor_;
  const int64_t bytes = plan_->bytes(request);
  in_arena_ -= bytes;
  if (poison_) {
    arena_->poison(offset, bytes);
  }
  return true;
}

void em_context::deviate() {
  if (stats_.bail < 0) {
    stats_.bail = static_cast<int64_t>(cursor_);
  }
}

void em_context::grew() {
  stats_.peak = std::max(stats_.peak, in_arena_ + in_heap_);
  stats_.heap_peak = std::max(stats_.heap_peak, in_heap_);
}

void em_context::note(int64_t size, int64_t request) {
  try {
    if (recorded_.size() < most_events_) {
      recorded_.push_back({size, request, now_ns() - began_ns_, thread_});
      return;
    }
  } catch (const std::bad_alloc&) {
    // Counted below: a record with a gap is of no use.
  }
  ++stats_.failed;
}
