// The C ABI over loops: checks what comes in, lets no exception out.
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "replay/edgemem_arena.h"
#include "replay/loop.h"
#include "replay/loop_device.h"
#include "replay/loop_slots.h"
#include "replay/refusal.h"

using edgemem::refuse;

namespace {

// Calls `act` on the loop with the lock held.
template <typename Act>
int32_t locked(em_loop* loop, Act act) noexcept {
  if (loop == nullptr) {
    return refuse("no loop");
  }
  const std::scoped_lock lock(loop->device().mutex());
  return act(*loop);
}

}  // namespace

em_loop* em_loop_create(int32_t device) {
  edgemem::LoopDevice* found = edgemem::LoopDevice::find(device);
  if (found == nullptr) {
    return nullptr;
  }
  try {
    return new em_loop(*found);
  } catch (const std::exception&) {
    refuse("no memory for a loop");
    return nullptr;
  }
}

void em_loop_destroy(em_loop* loop) {
  if (loop == nullptr) {
    return;
  }
  em_loop_stop(loop);
  delete loop;
}

int32_t em_loop_start(em_loop* loop) {
  return locked(loop, [](em_loop& one) { return one.start(); });
}

void em_loop_stop(em_loop* loop) {
  locked(loop, [](em_loop& one) {
    one.stop();
    return EM_OK;
  });
}

int32_t em_loop_record(em_loop* loop, int64_t most_events) {
  return locked(loop, [=](em_loop& one) { return one.record(most_events); });
}

int64_t em_loop_events(em_loop* loop, const em_loop_event** out) {
  if (loop == nullptr || out == nullptr) {
    return 0;
  }
  const std::scoped_lock lock(loop->device().mutex());
  const std::vector<em_loop_event>& events = loop->events();
  *out = events.data();
  return static_cast<int64_t>(events.size());
}

void em_loop_events_drop(em_loop* loop) {
  locked(loop, [](em_loop& one) {
    one.forget_events();
    return EM_OK;
  });
}

int32_t em_loop_replay(em_loop* loop, const em_slots* slots, em_arena* arena, int32_t flags) {
  if (loop == nullptr || slots == nullptr || arena == nullptr) {
    return refuse("a replay needs a loop, slots and an arena");
  }
  int32_t code = EM_OK;
  std::shared_ptr<const edgemem::LoopSlots> made = edgemem::LoopSlots::create(*slots, code);
  if (made == nullptr) {
    return code;
  }
  return locked(loop, [&](em_loop& one) { return one.replay(std::move(made), *arena, (flags & EM_POISON) != 0); });
}

int32_t em_loop_begin(em_loop* loop) {
  return locked(loop, [](em_loop& one) { return one.begin(); });
}

int32_t em_loop_end(em_loop* loop) {
  return locked(loop, [](em_loop& one) { return one.end(); });
}

int32_t em_loop_pause(em_loop* loop) {
  return locked(loop, [](em_loop& one) { return one.pause(); });
}

int32_t em_loop_resume(em_loop* loop) {
  return locked(loop, [](em_loop& one) { return one.resume(); });
}

void em_loop_enter(em_loop* loop, int64_t section) {
  if (loop != nullptr) {
    loop->enter(section);
  }
}

void em_loop_synchronized(em_loop* loop) {
  locked(loop, [](em_loop& one) {
    one.device().give_withheld();
    return EM_OK;
  });
}

void em_loop_stats_get(const em_loop* loop, em_loop_stats* last, em_loop_stats* total) {
  if (loop == nullptr) {
    return;
  }
  const std::scoped_lock lock(const_cast<em_loop*>(loop)->device().mutex());
  if (last != nullptr) {
    *last = loop->statistics().last();
  }
  if (total != nullptr) {
    *total = loop->statistics().total();
  }
}
