#pragma once
#include "tensorflow/lite/c/common.h"

namespace tflite {
class MicroOpResolver {};

template <unsigned int tOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
 public:
  TfLiteStatus AddAdd();
  TfLiteStatus AddAssignVariable();
  TfLiteStatus AddAveragePool2D();
  TfLiteStatus AddCallOnce();
  TfLiteStatus AddConcatenation();
  TfLiteStatus AddConv2D();
  TfLiteStatus AddDepthwiseConv2D();
  TfLiteStatus AddFullyConnected();
  TfLiteStatus AddLogistic();
  TfLiteStatus AddQuantize();
  TfLiteStatus AddReadVariable();
  TfLiteStatus AddReshape();
  TfLiteStatus AddStridedSlice();
  TfLiteStatus AddVarHandle();
};
}  // namespace tflite
