#pragma once
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {
class MicroInterpreter {
 public:
  MicroInterpreter(const Model* model, const MicroOpResolver& op_resolver, MicroAllocator* allocator,
                   MicroResourceVariables* resource_variables = nullptr);
  TfLiteStatus AllocateTensors();
  TfLiteStatus Invoke();
  TfLiteStatus Reset();
  size_t inputs_size() const;
  size_t outputs_size() const;
  TfLiteTensor* input(size_t index);
  TfLiteTensor* output(size_t index);
  size_t arena_used_bytes() const;
};
}  // namespace tflite
