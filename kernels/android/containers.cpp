#include "android/containers.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace edgemem {

namespace {

constexpr std::string_view kKey = "edgemem.plan";
constexpr std::string_view kMagic = "EDGM";
constexpr std::size_t kHeader = 16;
constexpr std::uint32_t kNewest = 4;

constexpr std::uint64_t kOnnxMetadata = 14;  // metadata_props of ModelProto; an entry has a key 1 and a value 2
constexpr int kTfliteBuffers = 4;            // fields of the tables of the TFLite schema
constexpr int kTfliteMetadata = 6;
constexpr int kMetadataName = 0;
constexpr int kMetadataBuffer = 1;
constexpr int kBufferData = 0;
constexpr int kBufferOffset = 1;
constexpr int kBufferSize = 2;

std::string_view text_of(Octets octets) { return {reinterpret_cast<const char*>(octets.data()), octets.size()}; }

// The fields of a protobuf message, one after the other.
class Message {
 public:
  explicit Message(Octets data) : rest_(data) {}

  struct Field {
    std::uint64_t number;
    bool is_bytes;  // a message, a string or bytes
    Octets body;    // of bytes
  };

  bool next(Field& out) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    out = {tag >> 3, (tag & 7) == 2, {}};
    switch (tag & 7) {
      case 0:
        varint();
        break;
      case 1:
        skip(8);
        break;
      case 2:
        out.body = skip(varint());
        break;
      case 5:
        skip(4);
        break;
      default:
        throw Refusal("the file is no ONNX model, or it is damaged: it has a protobuf group");
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned k = 0; k < 10 && k < rest_.size(); ++k) {
      const std::uint64_t octet = rest_[k];
      if (k == 9 && octet > 1) break;
      value |= (octet & 0x7F) << (7 * k);
      if (octet < 0x80) {
        rest_ = rest_.subspan(k + 1);
        return value;
      }
    }
    throw Refusal("the file is no ONNX model, or it is damaged: a number has no end");
  }

  Octets skip(std::uint64_t count) {
    if (count > rest_.size()) {
      throw Refusal("the file is no ONNX model, or it is damaged: a field ends beyond its message");
    }
    const Octets body = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return body;
  }

  Octets rest_;
};

int digit_of(std::uint8_t octet) {
  if (octet >= 'A' && octet <= 'Z') return octet - 'A';
  if (octet >= 'a' && octet <= 'z') return octet - 'a' + 26;
  if (octet >= '0' && octet <= '9') return octet - '0' + 52;
  return octet == '+' ? 62 : octet == '/' ? 63 : -1;
}

std::vector<std::uint8_t> decoded(Octets text) {
  std::size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') --digits;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t held = 0;
  bool is_right = text.size() % 4 == 0;
  for (std::size_t k = 0; is_right && k < digits; ++k) {
    const int digit = digit_of(text[k]);
    is_right = digit >= 0;
    held = held << 6 | static_cast<std::uint32_t>(digit & 63);
    if (k % 4 != 0) bytes.push_back(static_cast<std::uint8_t>(held >> (6 - k % 4 * 2)));
  }
  if (!is_right) throw Refusal("the plan in the model is damaged: it is not base64; plan the model again");
  return bytes;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t k = 0; k < 256; ++k) {
    std::uint32_t value = k;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0u);
    table[k] = value;
  }
  return table;
}

std::uint32_t word(Octets file, std::size_t at) {
  return static_cast<std::uint32_t>(file[at]) | static_cast<std::uint32_t>(file[at + 1]) << 8 |
         static_cast<std::uint32_t>(file[at + 2]) << 16 | static_cast<std::uint32_t>(file[at + 3]) << 24;
}

}  // namespace

std::vector<std::uint8_t> plan_in_onnx(Octets model) {
  if (model.empty()) throw Refusal("the ONNX model is empty");
  Octets plan;
  bool is_found = false;
  Message fields(model);
  for (Message::Field entry; fields.next(entry);) {
    if (entry.number != kOnnxMetadata || !entry.is_bytes) continue;
    Octets key;
    Octets value;
    Message parts(entry.body);
    for (Message::Field part; parts.next(part);) {
      if (part.is_bytes && part.number == 1) key = part.body;
      if (part.is_bytes && part.number == 2) value = part.body;
    }
    if (text_of(key) == kKey) {
      plan = value;
      is_found = true;
    }
  }
  if (!is_found) throw Refusal("the model carries no plan; make one with: edgemem plan MODEL -o PLANNED");
  return decoded(plan);
}

Octets plan_in_tflite(Octets model) {
  FlatBuffer buffer(model, false);
  if (model.size() < 8 || text_of(model.subspan(4, 4)) != "TFL3") throw Refusal("the file is no TFLite model");
  const FlatTable root(buffer, buffer.follow(0));
  const std::int64_t entries = root.count(kTfliteMetadata, "metadata");
  for (std::int64_t k = 0; k < entries; ++k) {
    const FlatTable entry = root.table_at(kTfliteMetadata, k, "metadata");
    const std::optional<Octets> name = entry.octets(kMetadataName, "the name of metadata");
    if (!name || text_of(*name) != kKey) continue;
    const auto number = static_cast<std::int64_t>(entry.natural(kMetadataBuffer, 4, "the buffer of metadata"));
    const FlatTable held = root.table_at(kTfliteBuffers, number, "buffers");
    const std::optional<Octets> inside = held.octets(kBufferData, "a buffer");
    if (inside && !inside->empty()) return *inside;
    const std::uint64_t at = held.natural(kBufferOffset, 8, "the offset of a buffer");
    const std::uint64_t size = held.natural(kBufferSize, 8, "the size of a buffer");
    if (at > model.size() || size > model.size() - at) throw Refusal("the plan in the model lies beyond its end");
    if (at != 0) return model.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
    throw Refusal("the plan in the model is empty; plan the model again");
  }
  throw Refusal("the model carries no plan; make one with: edgemem plan MODEL -o PLANNED");
}

Payload unwrap(Octets file) {
  if (file.size() < kHeader) throw Refusal("no plan file: %zu bytes are too short for its header", file.size());
  if (text_of(file.first(4)) != kMagic) throw Refusal("no plan file: it does not begin with EDGM");
  const std::uint32_t version = word(file, 4);
  if (version < 1 || version > kNewest) {
    throw Refusal("the plan file has format version %u, this library reads versions 1 to %u; %s", version, kNewest,
                  version > kNewest ? "update it" : "plan again");
  }
  const Octets payload = file.subspan(kHeader);
  if (word(file, 12) != payload.size()) {
    throw Refusal("the plan file should have %llu bytes and has %zu; copy it again, or plan again",
                  kHeader + static_cast<unsigned long long>(word(file, 12)), file.size());
  }
  if (crc32(payload) != word(file, 8)) {
    throw Refusal("the plan file is damaged (its checksum differs); copy it again, or plan again");
  }
  return {payload, version};
}

std::uint32_t crc32(Octets bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t value = 0xFFFFFFFFu;
  for (const std::uint8_t octet : bytes) value = value >> 8 ^ kTable[(value ^ octet) & 0xFF];
  return ~value;
}

}  // namespace edgemem
