// Which runtime serves the requests for host memory now, and which one a block is of.
#pragma once

#include <cstdint>
#include <memory>

#include "remat_runtime/recursive_lock.h"
#include "remat_runtime/runtime.h"

namespace edgemem::remat {

// Of all runtimes and of what follows. It is taken before every other lock of the library: a runtime's callbacks
// allocate and free with it held.
RecursiveLock& serving_lock();

// One at a time; null for none. A runtime that has been stopped is destroyed with the last block that it gave.
Runtime* active();
void set_active(Runtime* runtime);
Runtime* keep(std::unique_ptr<Runtime> runtime);
void end(Runtime& runtime);

// What em_torch_malloc and em_torch_free do first, without the lock held. False: it is not for a runtime.
bool allocate_under_budget(std::int64_t bytes, void*& block) noexcept;
bool free_under_budget(void* block) noexcept;

}  // namespace edgemem::remat
