// The three functions that torch.cuda.memory.CUDAPluggableAllocator takes, which also serve PyTorch's CPU allocator.
#include <cstddef>
#include <cstdint>

#include "arena/memory.h"
#include "arena/totals.h"
#include "bindings/shortage.h"
#include "remat_runtime/serving.h"
#include "replay/edgemem_arena.h"
#include "replay/loop_device.h"

void* em_torch_malloc(ptrdiff_t size, int device, void* stream) {
  if (size <= 0 || size > edgemem::kMostBytes) {
    if (size != 0) {
      edgemem::set_error("no memory for a block of %lld bytes", static_cast<long long>(size));
    }
    return nullptr;
  }
  void* block = nullptr;
  if (device == EM_HOST_MEMORY && edgemem::remat::allocate_under_budget(size, block)) {
    return block;
  }
  edgemem::LoopDevice* found = edgemem::LoopDevice::find(device);
  return found == nullptr ? nullptr : found->allocate(size, stream);
}

// PyTorch's pluggable allocator hands a null block on, and the first kernel that uses it fails; it makes an error of an
// exception.
void* em_torch_malloc_or_throw(ptrdiff_t size, int device, void* stream) {
  void* block = em_torch_malloc(size, device, stream);
  if (block == nullptr && size != 0) {
    edgemem::throw_bad_alloc();
  }
  return block;
}

void em_torch_free(void* block, ptrdiff_t /*size*/, int device, void* stream) {
  if (block == nullptr || (device == EM_HOST_MEMORY && edgemem::remat::free_under_budget(block))) {
    return;
  }
  if (edgemem::LoopDevice* found = edgemem::LoopDevice::find(device)) {
    found->free(block, stream);
  }
}

// The function is not told which device the block is of.
void em_torch_record_stream(void* block, void* stream) {
  for (int32_t device = 0; block != nullptr && device < EM_MOST_DEVICES; ++device) {
    edgemem::LoopDevice::find(device)->share(block, stream);
  }
}

int64_t em_torch_empty_cache(int device) {
  edgemem::LoopDevice* found = edgemem::LoopDevice::find(device);
  return found == nullptr ? 0 : found->empty_cache();
}

void em_torch_memory_get(int device, em_torch_memory* out) {
  edgemem::LoopDevice* found = edgemem::LoopDevice::find(device);
  if (out != nullptr) {
    *out = found == nullptr ? em_torch_memory{} : found->fallback_memory();
  }
}
