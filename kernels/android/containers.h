// Where a plan file is in the bytes of a model, and what is inside a plan file's header.
#pragma once

#include <cstdint>
#include <vector>

#include "android/flat_reader.h"

namespace edgemem {

// The plan file in the metadata of an ONNX model: the value of the last entry `edgemem.plan`, which is base64. Only the
// top level of the protobuf is walked. Throws Refusal if there is none, or the bytes are no protobuf.
std::vector<std::uint8_t> plan_in_onnx(Octets model);

// The plan file in a TFLite model: the buffer of its first metadata entry `edgemem.plan`, inside or behind the
// FlatBuffer; a part of `model`. Throws Refusal if there is none, or the bytes are no TFLite model.
Octets plan_in_tflite(Octets model);

struct Payload {
  Octets bytes;  // a FlatBuffer
  std::uint32_t version;
};

// Throws Refusal unless the header is right: magic, a version from 1 to 4, CRC-32 and length.
Payload unwrap(Octets file);

// As in zlib and PNG.
std::uint32_t crc32(Octets bytes);

}  // namespace edgemem
