#include "replay/requests.h"

#include "arena/arena.h"
#include "arena/blocks.h"
#include "arena/totals.h"
#include "replay/context_binding.h"
#include "replay/edgemem_arena.h"

namespace edgemem {

void* allocate(MemoryKind kind, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return nullptr;
  }
  const Bound bound = find_context(kind);
  if (bound.context != nullptr) {
    return bound.context->allocate(bytes, bound.thread);
  }
  if (thread_bindings.is_loading && kind == MemoryKind::host) {
    return reserve(bytes);
  }
  totals().outside.fetch_add(1, std::memory_order_relaxed);
  return blocks_of(kind).take(bytes, {});
}

void release(MemoryKind kind, void* block) noexcept {
  if (block == nullptr) {
    return;
  }
  const Bound bound = find_context(kind);
  if (bound.context != nullptr) {
    bound.context->free(block, bound.thread);
  } else if (em_arena* arena = arena_of(block)) {
    arena->block_freed();
  } else {
    blocks_of(kind).give(block);
  }
}

}  // namespace edgemem

void em_loading(int32_t is_on) { edgemem::thread_bindings.is_loading = is_on != 0; }

void* em_allocate(size_t size) { return edgemem::allocate(edgemem::MemoryKind::host, size); }

void em_free(void* block) { edgemem::release(edgemem::MemoryKind::host, block); }
