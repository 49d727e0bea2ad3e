#pragma once
#include <cstddef>
#include <cstdint>

enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 };

union TfLitePtrUnion {
  float* f;
  int8_t* int8;
  uint8_t* uint8;
  void* data;
};

struct TfLiteTensor {
  TfLitePtrUnion data;
  size_t bytes;
};
