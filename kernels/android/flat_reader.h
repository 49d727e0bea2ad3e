// Strict reading of an untrusted FlatBuffer, by the rules of edgemem/planfile/reader.py.
//
// Each number is read inside the buffer and at its natural alignment, and each byte of a table, vector or string is
// counted against a budget, the buffer's length. A buffer that shares nothing stays within the budget, while a small
// one with many offsets to one large vector exceeds it: time and memory stay linear in the bytes. Offsets point
// forwards only and the schema nests to a fixed depth, so there are no cycles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace edgemem {

using Octets = std::span<const std::uint8_t>;

// What is wrong with bytes that came from outside. No function lets it out of the C ABI.
class Refusal : public std::exception {
 public:
  explicit Refusal(const char* format, ...) __attribute__((format(printf, 2, 3)));
  const char* what() const noexcept override { return text_; }

 private:
  char text_[256];
};

// Throws Refusal unless the bytes are UTF-8 (no surrogates, no longer form than needed).
void check_utf8(std::string_view text, const char* name);

class FlatBuffer {
 public:
  // Without `strict` neither alignment nor the budget counts: for files of others, of which little is read.
  explicit FlatBuffer(Octets data, bool strict = true) : data_(data), budget_(data.size()), strict_(strict) {}
  FlatBuffer(const FlatBuffer&) = delete;
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  Octets data() const { return data_; }
  void check(std::int64_t position, std::int64_t size) const;
  void take(std::int64_t position, std::int64_t size);  // check, and count against the budget
  std::uint64_t number(std::int64_t position, std::int64_t size) const;
  std::int64_t follow(std::int64_t position) const;  // where the offset at this position points

  struct Vector {
    std::int64_t start;  // of the first item
    std::int64_t count;
  };
  Vector vector(std::int64_t position, std::int64_t item);

 private:
  Octets data_;
  std::size_t budget_;
  bool strict_;
};

// One table; fields are named by their slots in the schema. An absent field is nullopt, or the default.
class FlatTable {
 public:
  FlatTable(FlatBuffer& buffer, std::int64_t position);

  // The root of a buffer that has this file identifier (4 bytes).
  static FlatTable root(FlatBuffer& buffer, std::string_view identifier);

  bool has(int slot) const { return field(slot, 1, "a field") >= 0; }
  std::int64_t integer(int slot, const char* name, std::int64_t otherwise) const;
  std::uint64_t natural(int slot, std::int64_t size, const char* name) const;  // of `size` bytes; absent is 0
  std::optional<std::string> text(int slot, const char* name) const;
  std::optional<std::vector<std::int64_t>> integers(int slot, const char* name) const;
  std::optional<Octets> octets(int slot, const char* name) const;
  std::optional<FlatTable> table(int slot, const char* name) const;
  std::vector<FlatTable> tables(int slot, const char* name) const;
  std::int64_t count(int slot, const char* name) const;  // of a vector of tables
  FlatTable table_at(int slot, std::int64_t index, const char* name) const;

 private:
  std::int64_t field(int slot, std::int64_t size, const char* name) const;  // where its bytes are, or -1

  FlatBuffer* buffer_;
  std::int64_t position_;
  std::int64_t vtable_;
  std::int64_t vtable_size_;
  std::int64_t size_;
};

}  // namespace edgemem
