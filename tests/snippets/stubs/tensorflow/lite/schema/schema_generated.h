#pragma once

namespace tflite {
struct Model;
const Model* GetModel(const void* buffer);
}  // namespace tflite
