// The three functions that torch.cuda.memory.CUDAPluggableAllocator takes, which also serve PyTorch's CPU allocator.
#include <cstddef>
#include <cstdint>

#include "arena/memory.h"
#include "arena/totals.h"
#include "replay/edgemem_arena.h"
#include "replay/loop_device.h"

void* em_torch_malloc(ptrdiff_t size, int device, void* stream) {
  if (size <= 0 || size > edgemem::kMostBytes) {
    if (size != 0) {
      edgemem::set_error("no memory for a block of %lld bytes", static_cast<long long>(size));
    }
    return nullptr;
  }
  edgemem::LoopDevice* found = edgemem::LoopDevice::find(device);
  return found == nullptr ? nullptr : found->allocate(size, stream);
}

void em_torch_free(void* block, ptrdiff_t /*size*/, int device, void* stream) {
  if (block == nullptr) {
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
