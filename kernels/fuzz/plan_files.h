// Plan files for tests and fuzzers, written as edgemem/planfile/plan.fbs says; without checks, so that wrong ones can
// be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plan_files {

using Octets = std::vector<std::uint8_t>;
using Numbers = std::vector<std::int64_t>;

struct Value;
using Table = std::map<int, Value>;  // by slot

struct Value {
  std::variant<std::int64_t, bool, std::string, Numbers, Octets, Table, std::vector<Table>> held;
};

// A FlatBuffer, parents before children.
class Writer {
 public:
  static Octets write(const Table& root, std::string_view identifier) {
    Writer writer;
    writer.word(0);
    writer.out_.insert(writer.out_.end(), identifier.begin(), identifier.end());
    writer.set(0, writer.table(root));
    return std::move(writer.out_);
  }

 private:
  void word(std::uint32_t value) {
    for (unsigned k = 0; k < 4; ++k) out_.push_back(static_cast<std::uint8_t>(value >> (8 * k)));
  }
  void number(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    word(static_cast<std::uint32_t>(bits));
    word(static_cast<std::uint32_t>(bits >> 32));
  }
  // Pads until `ahead` bytes from here on are a multiple of 8.
  void align(std::size_t ahead) {
    while ((out_.size() + ahead) % 8 != 0) out_.push_back(0);
  }
  // Makes the offset at `place` point to `target`.
  void set(std::size_t place, std::size_t target) {
    const std::size_t distance = target - place;
    for (unsigned k = 0; k < 4; ++k) out_[place + k] = static_cast<std::uint8_t>(distance >> (8 * k));
  }

  std::size_t table(const Table& fields) {
    const int slots = fields.empty() ? 0 : fields.rbegin()->first + 1;
    const std::size_t vtable_bytes = 4 + 2 * static_cast<std::size_t>(slots);
    align(vtable_bytes + 4);  // fields of 8 bytes are behind the 4 of the offset to the vtable, from 8 on
    const std::size_t vtable = out_.size();
    const std::size_t at = vtable + vtable_bytes;
    out_.resize(at + 4 + 8 * fields.size(), 0);
    const auto half = [&](std::size_t place, std::size_t value) {
      out_[place] = static_cast<std::uint8_t>(value);
      out_[place + 1] = static_cast<std::uint8_t>(value >> 8);
    };
    half(vtable, vtable_bytes);
    half(vtable + 2, 4 + 8 * fields.size());
    out_[at] = static_cast<std::uint8_t>(vtable_bytes);
    out_[at + 1] = static_cast<std::uint8_t>(vtable_bytes >> 8);
    std::size_t field = at + 4;
    for (const auto& [slot, value] : fields) {
      half(vtable + 4 + 2 * static_cast<std::size_t>(slot), field - at);
      if (const auto* number = std::get_if<std::int64_t>(&value.held)) {
        for (unsigned k = 0; k < 8; ++k) {
          out_[field + k] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(*number) >> (8 * k));
        }
      } else if (const auto* is = std::get_if<bool>(&value.held)) {
        out_[field] = *is ? 1 : 0;
      } else {
        set(field, child(value));
      }
      field += 8;
    }
    return at;
  }

  std::size_t child(const Value& value) {
    if (const auto* inner = std::get_if<Table>(&value.held)) return table(*inner);
    align(4);
    const std::size_t at = out_.size();
    if (const auto* text = std::get_if<std::string>(&value.held)) {
      word(static_cast<std::uint32_t>(text->size()));
      out_.insert(out_.end(), text->begin(), text->end());
      out_.push_back(0);
    } else if (const auto* octets = std::get_if<Octets>(&value.held)) {
      word(static_cast<std::uint32_t>(octets->size()));
      out_.insert(out_.end(), octets->begin(), octets->end());
    } else if (const auto* numbers = std::get_if<Numbers>(&value.held)) {
      word(static_cast<std::uint32_t>(numbers->size()));
      for (const std::int64_t one : *numbers) number(one);
    } else {
      const auto& tables = std::get<std::vector<Table>>(value.held);
      word(static_cast<std::uint32_t>(tables.size()));
      const std::size_t first = out_.size();
      out_.resize(first + 4 * tables.size(), 0);
      for (std::size_t k = 0; k < tables.size(); ++k) set(first + 4 * k, table(tables[k]));
    }
    return at;
  }

  Octets out_;
};

// A payload behind a header whose length and checksum are right.
inline Octets sealed(const Octets& payload, std::uint32_t version) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::uint8_t octet : payload) {
    crc ^= octet;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  Octets file{'E', 'D', 'G', 'M'};
  for (const std::uint32_t word : {version, ~crc, static_cast<std::uint32_t>(payload.size())}) {
    for (unsigned k = 0; k < 4; ++k) file.push_back(static_cast<std::uint8_t>(word >> (8 * k)));
  }
  file.insert(file.end(), payload.begin(), payload.end());
  return file;
}

inline Value strings(const std::vector<std::string>& texts) {
  Octets all;
  Numbers ends;
  for (const std::string& text : texts) {
    all.insert(all.end(), text.begin(), text.end());
    ends.push_back(static_cast<std::int64_t>(all.size()));
  }
  return {Table{{0, {all}}, {1, {ends}}}};
}

// Columns of records with one plan.
struct Plan {
  std::vector<std::string> names;
  Numbers first, last, size, offsets;
  Octets kinds;
  std::int64_t arena;
  std::int64_t alignment = 64;
};

inline Table plan_set(const Plan& plan) {
  const Table problem{{0, strings(plan.names)}, {1, {plan.first}}, {2, {plan.last}},
                      {4, {plan.size}},         {5, {plan.kinds}}, {8, {plan.alignment}}};
  const Table offsets{{0, {std::string("by hand")}}, {2, {plan.offsets}}, {3, {plan.arena}}, {4, {true}}};
  return {{0, {problem}},
          {1, {std::int64_t{1000}}},
          {2, {plan.arena}},
          {4, {std::vector<Table>{offsets}}},
          {8, {std::string("abcd")}}};
}

// The plan set of a recording. Its heap's requests are never freed.
inline Table recording(const Plan& plan, std::int64_t events, const Numbers& heap_events = {},
                       const Numbers& heap_sizes = {}) {
  Table set = plan_set(plan);
  set[21] = {Table{{0, {std::string("onnxruntime")}},
                   {1, {std::string("1.31.1")}},
                   {2, {std::string("cdef")}},
                   {4, {Table{{0, {std::string("run")}}}}},
                   {5, {events}},
                   {6, {heap_events}},
                   {7, {heap_sizes}}}};
  return set;
}

inline Octets graph_file(const Table& set) { return sealed(Writer::write(set, "EMPL"), 1); }

inline Octets file_of(const std::vector<Table>& sets) { return sealed(Writer::write({{0, {sets}}}, "EMPF"), 4); }

// Request 0 of 100 bytes, request 1 of 200, request 0 is freed, request 2 of 90, requests 1 and 2 are freed.
inline Plan small_recording() {
  return {{"request 0", "request 1", "request 2"}, {0, 1, 3}, {1, 3, 4}, {100, 200, 90}, {0, 128, 0}, {0, 0, 0}, 328};
}

}  // namespace plan_files
