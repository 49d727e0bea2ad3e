// The three functions that ONNX Runtime's CUDA provider takes: gpu_external_alloc, _free and _empty_cache.
#include <cstddef>

#include "arena/blocks.h"
#include "replay/edgemem_arena.h"
#include "replay/requests.h"

using edgemem::MemoryKind;

void em_cuda_source(int (*take)(void**, size_t), int (*give)(void*)) { edgemem::set_device_source(take, give); }

void* em_cuda_alloc(size_t size) { return edgemem::allocate(MemoryKind::device, size); }

void em_cuda_free(void* block) { edgemem::release(MemoryKind::device, block); }

// There is no cache to empty: what is not in an arena goes back to its source when it is freed.
void em_cuda_empty_cache(void) {}
