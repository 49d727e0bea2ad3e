#include "android/flat_reader.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace edgemem {

namespace {

using Number = long long;  // as formats name it

}  // namespace

Refusal::Refusal(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
}

void check_utf8(std::string_view text, const char* name) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = at + text.size();
  while (at < end) {
    const unsigned lead = *at++;
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    std::uint32_t point = lead & (0x3Fu >> more);
    bool is_right = lead >= 0xC2 && lead <= 0xF4 && end - at >= more;
    for (int k = 0; is_right && k < more; ++k) {
      is_right = (at[k] & 0xC0u) == 0x80u;
      point = point << 6 | (at[k] & 0x3Fu);
    }
    if (!is_right || (more == 2 && point < 0x800) || (more == 3 && point < 0x10000) || point > 0x10FFFF ||
        (point >= 0xD800 && point <= 0xDFFF)) {
      throw Refusal("%s is not UTF-8", name);
    }
    at += more;
  }
}

void FlatBuffer::check(std::int64_t position, std::int64_t size) const {
  const auto all = static_cast<std::int64_t>(data_.size());
  if (position < 0 || size < 0 || size > all || position > all - size) {
    throw Refusal("%lld bytes at byte %lld are outside of the %lld bytes there are", static_cast<Number>(size),
                  static_cast<Number>(position), static_cast<Number>(all));
  }
}

void FlatBuffer::take(std::int64_t position, std::int64_t size) {
  check(position, size);
  if (!strict_) return;
  if (static_cast<std::size_t>(size) > budget_) {
    throw Refusal("the contents at byte %lld are used more than once", static_cast<Number>(position));
  }
  budget_ -= static_cast<std::size_t>(size);
}

std::uint64_t FlatBuffer::number(std::int64_t position, std::int64_t size) const {
  check(position, size);
  if (strict_ && position % size != 0) {
    throw Refusal("the number at byte %lld is not aligned to %lld bytes", static_cast<Number>(position),
                  static_cast<Number>(size));
  }
  std::uint64_t value = 0;
  for (std::int64_t k = size; k-- > 0;) value = value << 8 | data_[static_cast<std::size_t>(position + k)];
  return value;
}

std::int64_t FlatBuffer::follow(std::int64_t position) const {
  const auto offset = static_cast<std::int64_t>(number(position, 4));
  if (offset < 4) throw Refusal("the offset at byte %lld points into itself", static_cast<Number>(position));
  return position + offset;
}

FlatBuffer::Vector FlatBuffer::vector(std::int64_t position, std::int64_t item) {
  const std::int64_t start = follow(position);
  const auto count = static_cast<std::int64_t>(number(start, 4));
  take(start, 4 + count * item);
  if (strict_ && (start + 4) % item != 0) {
    throw Refusal("the vector at byte %lld is not aligned to %lld bytes", static_cast<Number>(start),
                  static_cast<Number>(item));
  }
  return {start + 4, count};
}

FlatTable::FlatTable(FlatBuffer& buffer, std::int64_t position) : buffer_(&buffer), position_(position) {
  const auto back = static_cast<std::int32_t>(static_cast<std::uint32_t>(buffer.number(position, 4)));
  vtable_ = position - back;
  vtable_size_ = static_cast<std::int64_t>(buffer.number(vtable_, 2));
  size_ = static_cast<std::int64_t>(buffer.number(vtable_ + 2, 2));
  if (vtable_size_ < 4 || vtable_size_ % 2 != 0 || size_ < 4) {
    throw Refusal("the table at byte %lld has an impossible layout", static_cast<Number>(position));
  }
  buffer.check(vtable_, vtable_size_);  // not counted: tables of one layout share it
  buffer.take(position, size_);
}

FlatTable FlatTable::root(FlatBuffer& buffer, std::string_view identifier) {
  buffer.take(0, 8);
  if (std::memcmp(buffer.data().data() + 4, identifier.data(), 4) != 0) {
    throw Refusal("its file identifier is not %.4s", identifier.data());
  }
  return {buffer, buffer.follow(0)};
}

std::int64_t FlatTable::field(int slot, std::int64_t size, const char* name) const {
  const std::int64_t entry = 4 + 2 * std::int64_t{slot};
  if (entry >= vtable_size_) return -1;
  const auto offset = static_cast<std::int64_t>(buffer_->number(vtable_ + entry, 2));
  if (offset == 0) return -1;
  if (offset < 4 || offset > size_ - size) {
    throw Refusal("%s is outside of its table at byte %lld", name, static_cast<Number>(position_));
  }
  return position_ + offset;
}

std::int64_t FlatTable::integer(int slot, const char* name, std::int64_t otherwise) const {
  const std::int64_t at = field(slot, 8, name);
  return at < 0 ? otherwise : static_cast<std::int64_t>(buffer_->number(at, 8));
}

std::uint64_t FlatTable::natural(int slot, std::int64_t size, const char* name) const {
  const std::int64_t at = field(slot, size, name);
  return at < 0 ? 0 : buffer_->number(at, size);
}

std::optional<std::string> FlatTable::text(int slot, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  if (at < 0) return std::nullopt;
  const FlatBuffer::Vector found = buffer_->vector(at, 1);
  buffer_->take(found.start + found.count, 1);
  if (buffer_->data()[static_cast<std::size_t>(found.start + found.count)] != 0) {
    throw Refusal("%s has no terminating zero", name);
  }
  const Octets octets =
      buffer_->data().subspan(static_cast<std::size_t>(found.start), static_cast<std::size_t>(found.count));
  std::string text(reinterpret_cast<const char*>(octets.data()), octets.size());
  check_utf8(text, name);
  return text;
}

std::optional<std::vector<std::int64_t>> FlatTable::integers(int slot, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  if (at < 0) return std::nullopt;
  const FlatBuffer::Vector found = buffer_->vector(at, 8);
  std::vector<std::int64_t> column(static_cast<std::size_t>(found.count));
  for (std::size_t k = 0; k < column.size(); ++k) {
    column[k] = static_cast<std::int64_t>(buffer_->number(found.start + 8 * static_cast<std::int64_t>(k), 8));
  }
  return column;
}

std::optional<Octets> FlatTable::octets(int slot, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  if (at < 0) return std::nullopt;
  const FlatBuffer::Vector found = buffer_->vector(at, 1);
  return buffer_->data().subspan(static_cast<std::size_t>(found.start), static_cast<std::size_t>(found.count));
}

std::optional<FlatTable> FlatTable::table(int slot, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  if (at < 0) return std::nullopt;
  return FlatTable(*buffer_, buffer_->follow(at));
}

std::vector<FlatTable> FlatTable::tables(int slot, const char* name) const {
  std::vector<FlatTable> all;
  const std::int64_t at = field(slot, 4, name);
  if (at < 0) return all;
  const FlatBuffer::Vector found = buffer_->vector(at, 4);
  all.reserve(static_cast<std::size_t>(found.count));
  for (std::int64_t k = 0; k < found.count; ++k) all.emplace_back(*buffer_, buffer_->follow(found.start + 4 * k));
  return all;
}

std::int64_t FlatTable::count(int slot, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  return at < 0 ? 0 : buffer_->vector(at, 4).count;
}

FlatTable FlatTable::table_at(int slot, std::int64_t index, const char* name) const {
  const std::int64_t at = field(slot, 4, name);
  const FlatBuffer::Vector found = at < 0 ? FlatBuffer::Vector{0, 0} : buffer_->vector(at, 4);
  if (index < 0 || index >= found.count) {
    throw Refusal("there is no entry %lld in %s", static_cast<Number>(index), name);
  }
  return {*buffer_, buffer_->follow(found.start + 4 * index)};
}

}  // namespace edgemem
