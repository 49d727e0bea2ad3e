// The C ABI over arenas, plans and contexts: checks what comes in, lets no exception out.
#include <new>

#include "arena/arena.h"
#include "arena/blocks.h"
#include "arena/totals.h"
#include "replay/context.h"
#include "replay/edgemem_arena.h"
#include "replay/replay_plan.h"

namespace {

int32_t refuse(const char* what) {
  edgemem::set_error("%s", what);
  return EM_REFUSED;
}

void* allocate(std::size_t size, int32_t kind) {
  if (size == 0) {
    return nullptr;
  }
  if (em_context* context = em_context::active(kind)) {
    return context->allocate(size);
  }
  edgemem::totals().outside.fetch_add(1, std::memory_order_relaxed);
  return (kind == EM_HOST ? edgemem::host_blocks() : edgemem::device_blocks()).take(size, {});
}

void release(void* block, int32_t kind) {
  if (block == nullptr) {
    return;
  }
  if (em_context* context = em_context::active(kind)) {
    context->free(block);
  } else if (em_arena* arena = em_arena::of(block)) {
    arena->block_freed();
  } else {
    (kind == EM_HOST ? edgemem::host_blocks() : edgemem::device_blocks()).give(block);
  }
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

em_arena* em_arena_create(int64_t size, int32_t flags) { return em_arena::create(size, (flags & EM_GUARD_PAGE) != 0); }

em_arena* em_arena_wrap(void* base, int64_t size, int32_t kind) { return em_arena::wrap(base, size, kind); }

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
  if (kind != EM_HOST && kind != EM_DEVICE) {
    refuse("a context is for host or device memory");
    return nullptr;
  }
  return new (std::nothrow) em_context(kind);
}

int32_t em_context_destroy(em_context* context) {
  if (context != nullptr && context->running()) {
    refuse("the context is active; end its run first");
    return EM_BUSY;
  }
  delete context;
  return EM_OK;
}

int32_t em_begin_record(em_context* context, int64_t most_events) {
  return context == nullptr ? refuse("no context") : context->begin_record(most_events);
}

int32_t em_begin_replay(em_context* context, em_plan* plan, em_arena* arena, int32_t flags) {
  if (context == nullptr || plan == nullptr || arena == nullptr) {
    return refuse("a replay needs a context, a plan and an arena");
  }
  return context->begin_replay(plan, arena, (flags & EM_POISON) != 0);
}

int32_t em_end(em_context* context, em_stats* out) {
  em_stats unused;
  return context == nullptr ? refuse("no context") : context->end(out == nullptr ? unused : *out);
}

int64_t em_events(const em_context* context, const em_event** out) {
  if (context == nullptr || out == nullptr) {
    return 0;
  }
  *out = context->events().data();
  return static_cast<int64_t>(context->events().size());
}

void* em_allocate(size_t size) { return allocate(size, EM_HOST); }

void em_free(void* block) { release(block, EM_HOST); }

void em_cuda_source(int (*take)(void**, size_t), int (*give)(void*)) { edgemem::set_device_source(take, give); }

void* em_cuda_alloc(size_t size) { return allocate(size, EM_DEVICE); }

void em_cuda_free(void* block) { release(block, EM_DEVICE); }

// Nothing is cached: what is not in an arena goes back when it is freed.
void em_cuda_empty_cache(void) {}
