#include "planned.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

static_assert(PLANNED_TENSOR_ARENA_SIZE <= 96 * 1024, "the arena must fit into the RAM of the device");

namespace {
tflite::MicroMutableOpResolver<PLANNED_OPERATORS> resolver;
tflite::MicroInterpreter* interpreter = nullptr;
}  // namespace

// Called once. False: the arena is too small, or the kernels compute something else than reference kernels.
bool classifier_begin() {
  if (!planned_add_operators(resolver)) return false;
  auto* allocator = tflite::MicroAllocator::Create(planned_tensor_arena, PLANNED_TENSOR_ARENA_SIZE);
  static tflite::MicroInterpreter made(tflite::GetModel(planned), resolver, allocator, nullptr);
  interpreter = &made;
  return made.AllocateTensors() == kTfLiteOk && planned_self_test(made);
}

// Which of the two classes a picture of 32 x 32 pixels is; -1: the run failed.
int classify(const int8_t (&pixels)[32 * 32 * 3]) {
  for (int i = 0; i < 32 * 32 * 3; ++i) interpreter->input(0)->data.int8[i] = pixels[i];
  if (interpreter->Invoke() != kTfLiteOk) return -1;
  const int8_t* scores = interpreter->output(0)->data.int8;
  return scores[1] > scores[0] ? 1 : 0;
}
