// The C ABI over arenas, plans and contexts: checks what comes in, lets no exception out.
#include <new>
#include <optional>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "arena/arena.h"
#include "arena/blocks.h"
#include "arena/budget.h"
#include "arena/totals.h"
#include "replay/context.h"
#include "replay/context_binding.h"
#include "replay/edgemem_arena.h"
#include "replay/edgemem_budget.h"
#include "replay/refusal.h"
#include "replay/replay_plan.h"

using edgemem::MemoryKind;
using edgemem::refuse;

static_assert(static_cast<int32_t>(MemoryKind::host) == EM_HOST);
static_assert(static_cast<int32_t>(MemoryKind::device) == EM_DEVICE);

namespace {

std::optional<MemoryKind> kind_of(int32_t number) {
  if (number != EM_HOST && number != EM_DEVICE) {
    refuse("the kind of memory is EM_HOST or EM_DEVICE");
    return std::nullopt;
  }
  return static_cast<MemoryKind>(number);
}

// Binds the context for the run that `begin` starts, or leaves all as it was.
template <typename Begin>
int32_t begin_bound(em_context& context, Begin begin) {
  if (!edgemem::bind_context(context)) {
    return refuse("a run is active on this thread already; end it first", EM_BUSY);
  }
  const int32_t status = begin();
  if (status != EM_OK) {
    edgemem::unbind_context(context);
  }
  return status;
}

}  // namespace

int32_t em_abi(void) { return EM_ABI; }

const char* em_last_error(void) { return edgemem::last_error(); }

void em_totals_get(em_totals* out) {
  if (out == nullptr) {
    return;
  }
  const edgemem::Totals& all = edgemem::totals();
  *out = {all.contexts.load(),  all.arenas.load(),       all.arena_bytes.load(), all.heap_live.load(),
          all.heap_peak.load(), all.reserve_live.load(), all.outside.load()};
}

void em_fail_after(int64_t count) { edgemem::set_allowance(count); }

em_arena* em_arena_create(int64_t size, int32_t flags) {
  if ((flags & ~(EM_GUARD_PAGE | EM_PARTS)) != 0) {
    refuse("the flags of an arena are EM_GUARD_PAGE and EM_PARTS");
    return nullptr;
  }
  return em_arena::create(size, (flags & EM_GUARD_PAGE) != 0, (flags & EM_PARTS) != 0);
}

em_arena* em_arena_part(em_arena* arena, int64_t offset, int64_t size) {
  if (arena == nullptr) {
    refuse("no arena");
    return nullptr;
  }
  return arena->part(offset, size);
}

em_arena* em_arena_wrap(void* base, int64_t size, int32_t kind) {
  const std::optional<MemoryKind> known = kind_of(kind);
  return known ? em_arena::wrap(base, size, *known) : nullptr;
}

int32_t em_arena_give_pages(em_arena* arena) {
  if (arena == nullptr) {
    return refuse("no arena");
  }
  return arena->give_pages() ? EM_OK : refuse("the arena is in use, or in memory of the caller's", EM_BUSY);
}

em_budget* em_budget_create(int64_t most) {
  em_budget* budget = most < 0 ? nullptr : new (std::nothrow) em_budget(most);
  if (budget == nullptr) {
    refuse("a budget is 0 bytes or more, and needs memory itself");
  }
  return budget;
}

void em_budget_release(em_budget* budget) {
  if (budget != nullptr) {
    budget->release();
  }
}

em_budget* em_budget_enter(em_budget* budget) { return edgemem::enter_budget(budget); }

em_budget* em_budget_here(void) { return edgemem::budget_here(); }

int64_t em_budget_held(const em_budget* budget) { return budget == nullptr ? 0 : budget->held(); }

int64_t em_budget_refused(void) { return edgemem::take_refused(); }

void em_arena_release(em_arena* arena) {
  if (arena != nullptr) {
    arena->release();
  }
}

void* em_arena_base(const em_arena* arena) { return arena == nullptr ? nullptr : arena->base(); }

int64_t em_arena_size(const em_arena* arena) { return arena == nullptr ? 0 : arena->size(); }

int64_t em_arena_left(const em_arena* arena) { return arena == nullptr ? 0 : arena->left(); }

em_plan* em_plan_create(const int64_t* events, int64_t count, const int64_t* offsets, int64_t requests, int64_t size,
                        int64_t alignment) {
  if (count < 0 || requests < 0 || (count > 0 && events == nullptr) || (requests > 0 && offsets == nullptr)) {
    refuse("a plan needs events and offsets");
    return nullptr;
  }
  return em_plan::create({events, static_cast<std::size_t>(count)}, {offsets, static_cast<std::size_t>(requests)}, size,
                         alignment);
}

void em_plan_release(em_plan* plan) {
  if (plan != nullptr) {
    plan->release();
  }
}

em_context* em_context_create(int32_t kind) {
  const std::optional<MemoryKind> known = kind_of(kind);
  if (!known) {
    return nullptr;
  }
  em_context* context = new (std::nothrow) em_context(*known);
  if (context == nullptr) {
    refuse("no memory for a context");
  }
  return context;
}

int32_t em_context_destroy(em_context* context) {
  if (context != nullptr && context->is_running()) {
    return refuse("the context is active; end its run first", EM_BUSY);
  }
  delete context;
  return EM_OK;
}

void em_context_abandon(em_context* context) {
  if (context != nullptr) {
    if (edgemem::unbind_context(*context)) {
      context->end();
    }
    em_context_destroy(context);
  }
}

int32_t em_begin_record(em_context* context, int64_t most_events) {
  if (context == nullptr) {
    return refuse("no context");
  }
  return begin_bound(*context, [=] { return context->begin_record(most_events); });
}

int32_t em_begin_replay(em_context* context, em_plan* plan, em_arena* arena, int32_t flags) {
  if (context == nullptr || plan == nullptr || arena == nullptr) {
    return refuse("a replay needs a context, a plan and an arena");
  }
  return begin_bound(*context, [=] {
    return context->begin_replay(*plan, *arena, (flags & EM_POISON) != 0, (flags & EM_RECORD) != 0);
  });
}

int32_t em_end(em_context* context, em_stats* out) {
  if (context == nullptr) {
    return refuse("no context");
  }
  if (!edgemem::unbind_context(*context)) {
    return refuse("this context is not active on this thread");
  }
  const em_stats summary = context->end();
  if (out != nullptr) {
    *out = summary;
  }
  return EM_OK;
}

int64_t em_recent_peak(em_context* context) { return context == nullptr ? 0 : context->take_recent_peak(); }

int64_t em_events(const em_context* context, const em_event** out) {
  if (context == nullptr || out == nullptr) {
    return 0;
  }
  *out = context->events().data();
  return static_cast<int64_t>(context->events().size());
}

void em_events_drop(em_context* context) {
  if (context != nullptr && !context->is_running()) {
    context->forget_events();
  }
}

em_context* em_active(int32_t kind) {
  const std::optional<MemoryKind> known = kind_of(kind);
  return known ? edgemem::find_context(*known).context : nullptr;
}

int64_t em_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);  // what a runtime freed while it loaded a model
#endif
  return edgemem::trim_pool();
}
