#pragma once
#include "tensorflow/lite/c/common.h"

namespace tflite {
class MicroAllocator {
 public:
  static MicroAllocator* Create(uint8_t* tensor_arena, size_t arena_size);
};
}  // namespace tflite
