#include "remat_runtime/address_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "arena/memory.h"
#include "arena/totals.h"

namespace edgemem::remat {

namespace {

std::int64_t page_bytes() {
  static const std::int64_t bytes = getpagesize();
  return bytes;
}

std::int64_t rounded_up(std::int64_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

}  // namespace

AddressRange::AddressRange(std::int64_t bytes, std::int64_t most) {
  const std::int64_t least = std::max(rounded_up(bytes), page_bytes());
  if (bytes > kMostBytes - page_bytes() || !system_may_give()) {
    throw std::bad_alloc();
  }
  // A limit on the addresses of the process (ulimit -v) may forbid more than a part.
  for (std::int64_t wanted = std::max(least, rounded_up(most));; wanted = std::max(least, rounded_up(wanted / 2))) {
    void* memory =
        mmap(nullptr, static_cast<std::size_t>(wanted), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      base_ = static_cast<char*>(memory);
      reserved_ = wanted;
      break;
    }
    if (wanted == least) {
      throw std::bad_alloc();
    }
  }
  if (!grow(bytes)) {
    munmap(base_, static_cast<std::size_t>(reserved_));
    throw std::bad_alloc();
  }
}

AddressRange::~AddressRange() { munmap(base_, static_cast<std::size_t>(reserved_)); }

bool AddressRange::contains(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return at >= base_ && at < base_ + opened_;
}

bool AddressRange::grow(std::int64_t bytes) noexcept {
  if (bytes > reserved_ - opened_) {
    return false;
  }
  const std::int64_t from = rounded_up(opened_);
  const std::int64_t to = rounded_up(opened_ + bytes);
  if (to > from && (!system_may_give() ||
                    mprotect(base_ + from, static_cast<std::size_t>(to - from), PROT_READ | PROT_WRITE) != 0)) {
    return false;
  }
  opened_ += bytes;
  return true;
}

void AddressRange::discard(std::int64_t offset, std::int64_t bytes) noexcept {
  const std::int64_t from = rounded_up(offset);
  const std::int64_t to = (offset + bytes) / page_bytes() * page_bytes();
  if (to > from) {
    madvise(base_ + from, static_cast<std::size_t>(to - from), MADV_DONTNEED);
  }
}

void AddressRange::trim() noexcept {
  const std::int64_t kept = std::max(rounded_up(opened_), page_bytes());
  if (kept < reserved_ && munmap(base_ + kept, static_cast<std::size_t>(reserved_ - kept)) == 0) {
    reserved_ = kept;
  }
}

}  // namespace edgemem::remat
