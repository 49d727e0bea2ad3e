#include "arena/pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <new>

#include "arena/block_header.h"
#include "arena/totals.h"

namespace edgemem {

namespace {

constexpr int64_t kHeader = sizeof(BlockHeader);
constexpr int64_t kSmallestRest = 4 * kHeader;  // a smaller rest of a piece stays with the block
constexpr int64_t kMebibyte = int64_t{1} << 20;
// A region is as large as all before it, so that about half of what is reserved is used: few regions are enough, and
// the rest of the process has its share of the addresses if they are limited, now or later. The first one is small
// where they are limited already.
constexpr int64_t kFirstRegion = sizeof(void*) == 8 ? int64_t{1} << 30 : int64_t{1} << 28;
constexpr int64_t kSmallestRegion = 2 * kMebibyte;
constexpr int64_t kStep = 16 * kMebibyte;  // of what may be touched
constexpr int kCorrections = 16;           // after each trim; more would cost runs that the pool serves alone

int64_t page() {
  static const int64_t size = getpagesize();
  return size;
}

bool is_space_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// Bytes of the pages of a range that use memory.
int64_t used_bytes(std::byte* begin, int64_t bytes) {
#ifdef __APPLE__
  std::array<char, 4096> states;
#else
  std::array<unsigned char, 4096> states;
#endif
  int64_t used = 0;
  const int64_t most = static_cast<int64_t>(states.size()) * page();
  for (int64_t done = 0; done < bytes; done += most) {
    const int64_t part = std::min(bytes - done, most);
    if (mincore(begin + done, static_cast<std::size_t>(part), states.data()) != 0) {
      return bytes;  // the system does not tell
    }
    used += std::count_if(states.begin(), states.begin() + part / page(), [](auto s) { return (s & 1) != 0; });
  }
  return used * page();
}

// The whole pages of a free piece behind its header; false if there are none.
bool pages_in(const BlockHeader& piece, std::byte*& begin, int64_t& bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(&piece) + sizeof(BlockHeader);
  const auto end = reinterpret_cast<std::uintptr_t>(&piece) + static_cast<std::uintptr_t>(piece.size);
  const auto step = static_cast<std::uintptr_t>(page());
  const std::uintptr_t first = (start + step - 1) / step * step;
  const std::uintptr_t last = end / step * step;
  if (first >= last) {
    return false;
  }
  begin = reinterpret_cast<std::byte*>(first);
  bytes = static_cast<int64_t>(last - first);
  return true;
}

BlockHeader* at(std::byte* place) { return reinterpret_cast<BlockHeader*>(place); }

}  // namespace

bool Pool::contains(const void* address) const noexcept {
  const auto* place = static_cast<const std::byte*>(address);
  const std::size_t count = count_.load(std::memory_order_acquire);
  return std::any_of(regions_.begin(), regions_.begin() + static_cast<std::ptrdiff_t>(count),
                     [place](const Region& r) { return place >= r.base && place < r.base + r.reserved; });
}

BlockHeader* Pool::take(int64_t bytes) noexcept {
  const int64_t size = block_bytes(bytes);
  const std::scoped_lock lock(mutex_);
  const auto found = free_.lower_bound({size, nullptr});
  BlockHeader* piece = nullptr;
  if (found == free_.end()) {
    piece = grow(size);
  } else {
    piece = found->second;
    unlist(*piece);
  }
  if (piece == nullptr) {
    return nullptr;
  }
  piece = cut(piece, size);
  live_ += piece->size;
  most_live_ = std::max(most_live_, live_);
  return piece;
}

// Gives the piece's rest, if it is large enough, back to the list.
BlockHeader* Pool::cut(BlockHeader* piece, int64_t size) noexcept {
  const int64_t rest = piece->size - size;
  piece->is_free = false;
  if (rest < kSmallestRest) {
    return piece;
  }
  BlockHeader* behind = after(*piece);
  auto* left = new (reinterpret_cast<std::byte*>(piece) + size) BlockHeader{};
  left->size = rest;
  left->before = size;
  left->region = piece->region;
  left->is_free = true;
  left->touched = std::max(piece->touched - size, int64_t{0});
  piece->size = size;
  if (behind != nullptr) {
    behind->before = rest;
  } else {
    regions_[piece->region].last = left;
  }
  list(*left);
  return piece;
}

void Pool::give(BlockHeader* block, bool has_pages) noexcept {
  const std::scoped_lock lock(mutex_);
  Region& region = regions_[block->region];
  live_ -= block->size;
  block->is_free = true;
  block->touched = has_pages ? block->size : kHeader;
  BlockHeader* next = after(*block);
  if (next != nullptr && next->is_free) {
    unlist(*next);
    block->touched = next->touched != 0 ? block->size + next->touched : block->touched;
    block->size += next->size;
    next = after(*block);
  }
  if (block->before != 0) {
    BlockHeader* previous = at(reinterpret_cast<std::byte*>(block) - block->before);
    if (previous->is_free) {
      unlist(*previous);
      previous->touched = block->touched != 0 ? previous->size + block->touched : previous->touched;
      previous->size += block->size;
      block = previous;
    }
  }
  if (next != nullptr) {
    next->before = block->size;
  } else {
    region.last = block;
  }
  if (corrections_ > 0 && block->touched >= kWorthACall &&
      live_ + touched_ + block->touched > most_live_ + most_live_ / 8) {
    --corrections_;
    give_pages(*block);
    block->touched = 0;
  }
  list(*block);
}

void Pool::give_pages(const BlockHeader& block) noexcept {
  std::byte* begin = nullptr;
  int64_t bytes = 0;
  if (pages_in(block, begin, bytes)) {
    madvise(begin, static_cast<std::size_t>(bytes), MADV_DONTNEED);
  }
}

int64_t Pool::trim() noexcept {
  const std::scoped_lock lock(mutex_);
  int64_t given = 0;
  for (const auto& [size, piece] : free_) {
    std::byte* begin = nullptr;
    int64_t bytes = 0;
    if (piece->touched != 0 && pages_in(*piece, begin, bytes)) {
      const int64_t used = used_bytes(begin, bytes);
      if (madvise(begin, static_cast<std::size_t>(bytes), MADV_DONTNEED) == 0) {
        given += used;
      }
    }
    touched_ -= piece->touched;
    piece->touched = 0;
  }
  most_live_ = live_;
  corrections_ = kCorrections;
  return given;
}

// A piece of at least `size` bytes at the top of a region, with the free piece that ends there; null without memory.
BlockHeader* Pool::grow(int64_t size) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (std::size_t k = count_.load(std::memory_order_relaxed); k-- > 0;) {
      Region& region = regions_[k];
      BlockHeader* last = region.last != nullptr && region.last->is_free ? region.last : nullptr;
      const int64_t more = size - (last != nullptr ? last->size : 0);
      if (!extend(region, more)) {
        continue;
      }
      region.top += more;
      if (last != nullptr) {
        unlist(*last);
        last->size = size;
        return last;
      }
      auto* made = new (region.base + (region.top - more)) BlockHeader{};
      made->size = size;
      made->before = region.last != nullptr ? region.last->size : 0;
      made->region = static_cast<uint32_t>(k);
      region.last = made;
      return made;
    }
    if (!reserve_region(size)) {
      return nullptr;
    }
  }
  return nullptr;
}

bool Pool::extend(Region& region, int64_t size) noexcept {
  if (size > region.reserved - region.top) {
    return false;
  }
  const int64_t wanted = region.top + size;
  if (wanted <= region.committed) {
    return true;
  }
  for (const int64_t step : {kStep, page()}) {  // less where memory is limited
    const int64_t committed = std::min(rounded_up(wanted, step), region.reserved);
    if (mprotect(region.base + region.committed, static_cast<std::size_t>(committed - region.committed),
                 PROT_READ | PROT_WRITE) == 0) {
      region.committed = committed;
      return true;
    }
  }
  return false;
}

// A region whose first `size` bytes may be touched. It is listed only then: what is listed stays.
bool Pool::reserve_region(int64_t size) noexcept {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count == kMostRegions) {
    return false;
  }
  const int64_t least = std::max(rounded_up(size, page()), kSmallestRegion);
  int64_t held = 0;
  for (std::size_t k = 0; k < count; ++k) {
    held += regions_[k].reserved;
  }
  for (const int64_t bytes :
       {is_space_limited() ? 0 : std::max({kFirstRegion, held, least}), std::max(held, least), least}) {
    if (bytes == 0) {
      continue;
    }
    // Counts as memory of the process when it may be touched, not now; so the system can refuse what it does not have.
    void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      continue;
    }
    Region& made = regions_[count];
    made = {static_cast<std::byte*>(memory), bytes, 0, 0, nullptr};
    if (!extend(made, size)) {
      munmap(memory, static_cast<std::size_t>(bytes));
      return false;
    }
    count_.store(count + 1, std::memory_order_release);
    return true;
  }
  return false;
}

BlockHeader* Pool::after(const BlockHeader& block) const noexcept {
  const Region& region = regions_[block.region];
  std::byte* end = reinterpret_cast<std::byte*>(const_cast<BlockHeader*>(&block)) + block.size;
  return end == region.base + region.top ? nullptr : at(end);
}

// Without memory for the entry the piece serves no request until a neighbour is freed.
void Pool::list(BlockHeader& piece) noexcept {
  touched_ += piece.touched;
  try {
    free_.insert({piece.size, &piece});
  } catch (const std::exception&) {  // counted all the same
  }
}

void Pool::unlist(const BlockHeader& piece) noexcept {
  touched_ -= piece.touched;
  free_.erase({piece.size, const_cast<BlockHeader*>(&piece)});
}

}  // namespace edgemem
