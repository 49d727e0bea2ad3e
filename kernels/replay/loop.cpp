#include "replay/loop.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "arena/totals.h"
#include "replay/refusal.h"

using edgemem::EventPlace;
using edgemem::Freed;
using edgemem::LoopArena;
using edgemem::LoopSlot;
using edgemem::LoopSlots;
using edgemem::LoopThread;
using edgemem::Origin;
using edgemem::refuse;
using edgemem::SectionEntry;

namespace {

std::atomic<int64_t> loop_runs{0};

int64_t next_run() { return loop_runs.fetch_sub(1, std::memory_order_relaxed) - 1; }

constexpr int64_t kUnnoted = -1;  // the request of a block that no record knows
constexpr int64_t kPaused = -2;   // of one that was made while the loop was paused

constexpr std::size_t kMostStreams = 256;

}  // namespace

int32_t em_loop::start() noexcept {
  if (device_.active() != nullptr) {
    return refuse("another loop, or this one, serves the device already; stop it first", EM_BUSY);
  }
  session_ = next_run();
  run_ = session_;
  paused_ = 0;
  is_in_iteration_ = false;
  iteration_.fetch_add(1, std::memory_order_relaxed);
  lanes_ = 0;
  streams_.clear();
  statistics_.start();
  device_.set_active(this);
  return EM_OK;
}

void em_loop::stop() noexcept {
  if (is_active()) {
    device_.set_active(nullptr);
    session_ = 0;
    is_in_iteration_ = false;
    recorder_.stop();
  }
  matcher_.follow(nullptr);
  next_slots_ = nullptr;
  leave_if_unused(std::exchange(arena_, nullptr));
  leave_if_unused(std::exchange(next_arena_, nullptr));
}

int32_t em_loop::record(int64_t most_events) noexcept {
  if (!is_active()) {
    return refuse("the loop is not started");
  }
  recorder_.start(most_events);
  return EM_OK;
}

const std::vector<em_loop_event>& em_loop::events() noexcept {
  recorder_.stop();
  return recorder_.events();
}

void em_loop::forget_events() noexcept {
  recorder_.stop();
  recorder_.clear();
}

int32_t em_loop::replay(std::shared_ptr<const LoopSlots> slots, em_arena& arena, bool poison) noexcept {
  if (arena.kind() != device_.kind() || arena.size() < slots->size() ||
      reinterpret_cast<std::uintptr_t>(arena.base()) % static_cast<std::uintptr_t>(slots->alignment()) != 0) {
    edgemem::set_error("the plan needs %lld bytes aligned to %lld, in memory of the loop's kind; the arena has %lld",
                       static_cast<long long>(slots->size()), static_cast<long long>(slots->alignment()),
                       static_cast<long long>(arena.size()));
    return EM_REFUSED;
  }
  LoopArena* entered = nullptr;
  for (LoopArena* own : {arena_, next_arena_}) {
    if (own != nullptr && &own->arena() == &arena) {
      entered = own;
    }
  }
  if (entered == nullptr) {
    int32_t code = EM_OK;
    entered = device_.enter(arena, code);
    if (entered == nullptr) {
      return code;
    }
  }
  next_slots_ = std::move(slots);
  next_poison_ = poison;
  LoopArena* before = std::exchange(next_arena_, entered);
  if (before != entered) {
    leave_if_unused(before);
  }
  return EM_OK;
}

void em_loop::leave_if_unused(LoopArena* arena) noexcept {
  if (arena != nullptr && arena != arena_ && arena != next_arena_) {
    device_.leave(*arena);
  }
}

int32_t em_loop::begin() noexcept {
  if (!is_active()) {
    return refuse("the loop is not started");
  }
  if (is_in_iteration_) {
    return refuse("an iteration is on already; end it first");
  }
  if (next_slots_ != nullptr) {
    if (!matcher_.follow(next_slots_)) {
      return refuse("no memory to follow a plan", EM_NO_MEMORY);
    }
    next_slots_ = nullptr;
    run_ = next_run();
    LoopArena* before = std::exchange(arena_, std::exchange(next_arena_, nullptr));
    if (before != arena_) {
      leave_if_unused(before);
    }
    arena_->set_poison(next_poison_);
  }
  matcher_.begin_iteration();
  is_in_iteration_ = true;
  iteration_.fetch_add(1, std::memory_order_relaxed);
  if (is_host()) {
    thread_of_request();
  }
  statistics_.begin_iteration();
  recorder_.begin_iteration();
  return EM_OK;
}

int32_t em_loop::end() noexcept {
  if (!is_in_iteration_) {
    return refuse("no iteration is on");
  }
  is_in_iteration_ = false;
  statistics_.end_iteration();
  recorder_.end_iteration();
  return EM_OK;
}

int32_t em_loop::pause() noexcept {
  if (!is_active()) {
    return refuse("the loop is not started");
  }
  ++paused_;
  return EM_OK;
}

int32_t em_loop::resume() noexcept {
  if (!is_active() || paused_ == 0) {
    return refuse("the loop is not paused");
  }
  --paused_;
  return EM_OK;
}

void em_loop::enter(int64_t section) noexcept {
  LoopThread* thread = threads_.find_mine();
  if (thread == nullptr) {
    const std::scoped_lock lock(device_.mutex());
    thread = threads_.mine();
  }
  if (thread != nullptr) {
    thread->entry = {section, entries_.fetch_add(1, std::memory_order_relaxed) + 1};
    thread->iteration = iteration_.load(std::memory_order_relaxed);
  }
}

// The calling thread, which has a lane if it has asked for memory in an iteration.
LoopThread* em_loop::thread_of_request() noexcept {
  // Outside of iterations threads come and go: they take no room from those that need a lane.
  LoopThread* thread = is_in_iteration_ ? threads_.mine() : threads_.known();
  if (thread == nullptr) {
    return nullptr;
  }
  if (thread->session != session_) {
    thread->session = session_;
    thread->number = -1;
  }
  if (thread->number < 0 && is_in_iteration_) {
    thread->number = lanes_++;
  }
  return thread;
}

SectionEntry em_loop::entry_of(const LoopThread* thread) const noexcept {
  const bool is_new = thread != nullptr && thread->iteration == iteration_.load(std::memory_order_relaxed);
  return is_new ? thread->entry : SectionEntry{};
}

// -1 if there are too many, or memory is short.
int64_t em_loop::stream_number(void* stream) noexcept {
  if (is_host()) {
    return 0;
  }
  const auto found = std::find(streams_.begin(), streams_.end(), stream);
  const int64_t number = found - streams_.begin();
  if (found == streams_.end()) {
    try {
      if (streams_.size() == kMostStreams) {
        return -1;
      }
      streams_.push_back(stream);
    } catch (const std::exception&) {
      return -1;
    }
  }
  return number;
}

void* em_loop::allocate(int64_t bytes, void* stream) noexcept {
  if (paused_ != 0) {
    return device_.take_fallback(bytes, stream, {run_, kPaused});
  }
  if (is_host()) {
    stream = nullptr;
  }
  const LoopThread* thread = thread_of_request();
  const SectionEntry entry = entry_of(thread);
  const int64_t number = stream_number(stream);
  const bool is_noted = recorder_.is_on() && recorder_.make_room();
  const Origin origin{run_, is_noted ? recorder_.next_request() : kUnnoted};
  Placed placed;
  if (is_in_iteration_) {
    const int64_t of_thread = thread == nullptr ? -1 : thread->number;
    placed = place(bytes, is_host() ? of_thread : number, entry, stream, origin);
  }
  void* block = placed.block;
  if (block != nullptr) {
    statistics_.add_arena(bytes);
  } else {
    block = device_.take_fallback(bytes, stream, origin);
    if (block == nullptr) {
      placed.outcome = &em_loop_stats::failed;
    } else {
      statistics_.add_fallback(bytes);
    }
  }
  if (is_in_iteration_) {
    count(placed.outcome, bytes);
  }
  if (block != nullptr && is_noted) {
    recorder_.note_request(bytes, {thread == nullptr ? -1 : thread->number, number, entry.section});
  } else if (block != nullptr && recorder_.is_on()) {
    statistics_.count_unnoted();
  }
  return block;
}

em_loop::Placed em_loop::place(int64_t bytes, int64_t lane, SectionEntry entry, void* stream, Origin origin) noexcept {
  const LoopSlots* slots = matcher_.slots();
  if (slots == nullptr) {
    return {};
  }
  if (!is_host() && lane != slots->largest_lane()) {
    return {nullptr, &em_loop_stats::other_stream};
  }
  const LoopSlot* slot = matcher_.match(lane, entry, bytes);
  if (slot == nullptr) {
    return {};
  }
  if (slot->is_dynamic()) {
    void* block = arena_->take_within(slots->space(slot->space), bytes, slots->alignment(), stream, origin);
    return {block, block != nullptr ? &em_loop_stats::dynamic_hits : &em_loop_stats::dynamic_misses};
  }
  if (slot->offset < 0) {
    return {nullptr, &em_loop_stats::unplanned};
  }
  void* block = arena_->take(slot->offset, bytes, stream, origin);
  if (block == nullptr && slot->other >= 0) {
    block = arena_->take(slot->other, bytes, stream, origin);
  }
  return {block, block != nullptr ? &em_loop_stats::hits : &em_loop_stats::occupied};
}

void em_loop::count(edgemem::LoopStatistics::Count outcome, int64_t bytes) noexcept {
  const bool is_missed = outcome == &em_loop_stats::misses || outcome == &em_loop_stats::occupied ||
                         outcome == &em_loop_stats::dynamic_misses;
  if (is_missed) {
    statistics_.count_missed(outcome, bytes);
  } else {
    statistics_.count(outcome);
  }
}

void em_loop::freed(const Freed& was, bool was_in_arena, void* stream) noexcept {
  const bool is_own = was.origin.run <= session_ && was.origin.run >= run_;
  if (!is_own || was.origin.request == kPaused) {
    return;
  }
  if (was_in_arena) {
    statistics_.add_arena(-was.bytes);
  } else {
    statistics_.add_fallback(-was.bytes);
  }
  if (!recorder_.knows(was.origin.request)) {
    return;
  }
  if (!recorder_.make_room()) {
    statistics_.count_unnoted();
    return;
  }
  const LoopThread* thread = threads_.known();
  const bool has_number = thread != nullptr && thread->session == session_;
  const int64_t number = stream_number(stream);
  recorder_.note_free(was.origin.request, {has_number ? thread->number : -1, number, entry_of(thread).section});
}
