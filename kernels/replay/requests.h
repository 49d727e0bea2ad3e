// The way of a request from a runtime to what serves it: a context, an arena, or the heap.
#pragma once

#include <cstddef>

#include "arena/memory.h"

namespace edgemem {

// Null, with the error set, if it cannot be served; null for 0 bytes.
void* allocate(MemoryKind kind, std::size_t bytes) noexcept;

// Any block that allocate() or reserve() gave, on any thread; null does nothing.
void release(MemoryKind kind, void* block) noexcept;

}  // namespace edgemem
