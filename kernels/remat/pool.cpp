#include "remat/pool.h"

#include <limits>
#include <stdexcept>

namespace edgemem::remat {

Pool::Pool(std::int64_t bytes) { grow(bytes); }

void Pool::grow(std::int64_t bytes) {
  if (bytes < 0 || bytes > std::numeric_limits<std::int64_t>::max() - bytes_) {
    throw std::invalid_argument("a pool of less than no bytes, or of more than there are addresses");
  }
  if (bytes == 0) return;
  if (last_ == kNone || !block(last_).is_free) {
    at(insert_after(last_)).address = bytes_;
    free_at_.emplace(bytes_, last_);
  }
  at(last_).bytes += bytes;
  bytes_ += bytes;
}

Pool::Index Pool::used_at(std::int64_t address) const {
  const auto found = used_at_.find(address);
  return found == used_at_.end() ? kNone : found->second;
}

Pool::Index Pool::leftmost(std::int64_t bytes) const {
  for (const auto& [address, free] : free_at_) {
    if (block(free).bytes >= bytes) return free;
  }
  return kNone;
}

Pool::Index Pool::rightmost(std::int64_t bytes) const {
  for (auto free = free_at_.rbegin(); free != free_at_.rend(); ++free) {
    if (block(free->second).bytes >= bytes) return free->second;
  }
  return kNone;
}

Pool::Index Pool::best(std::int64_t bytes) const {
  Index found = kNone;
  for (const auto& [address, free] : free_at_) {
    const std::int64_t room = block(free).bytes;
    if (room >= bytes && (found == kNone || room < block(found).bytes)) found = free;
  }
  return found;
}

Pool::Index Pool::take_left(Index free, std::int64_t bytes, std::int64_t owner) {
  free_at_.erase(block(free).address);
  if (const std::int64_t rest = block(free).bytes - bytes; rest > 0) {
    const Index after = insert_after(free);
    at(after).address = block(free).address + bytes;
    at(after).bytes = rest;
    at(free).bytes = bytes;
    free_at_.emplace(block(after).address, after);
  }
  return use(free, owner);
}

Pool::Index Pool::take_right(Index free, std::int64_t bytes, std::int64_t owner) {
  const std::int64_t rest = block(free).bytes - bytes;
  if (rest == 0) return take_left(free, bytes, owner);
  const Index after = insert_after(free);
  at(after).address = block(free).address + rest;
  at(after).bytes = bytes;
  at(free).bytes = rest;
  return use(after, owner);
}

Pool::Index Pool::use(Index index, std::int64_t owner) {
  Block& used = at(index);
  used.is_free = false;
  used.owner = owner;
  used_ += used.bytes;
  used_at_.emplace(used.address, index);
  return index;
}

void Pool::give(Index used) {
  Block& given = at(used);
  used_at_.erase(given.address);
  used_ -= given.bytes;
  given.is_free = true;
  given.owner = -1;
  if (const Index after = given.after; after != kNone && block(after).is_free) {
    given.bytes += block(after).bytes;
    free_at_.erase(block(after).address);
    remove(after);
  }
  if (given.before != kNone && block(given.before).is_free) {
    at(given.before).bytes += given.bytes;
    remove(used);
  } else {
    free_at_.emplace(given.address, used);
  }
}

Pool::Index Pool::insert_after(Index before) {
  Index made;
  if (spare_.empty()) {
    made = static_cast<Index>(blocks_.size());
    blocks_.emplace_back();
  } else {
    made = spare_.back();
    spare_.pop_back();
    at(made) = Block{};
  }
  const Index after = before == kNone ? first_ : block(before).after;
  at(made).before = before;
  at(made).after = after;
  (before == kNone ? first_ : at(before).after) = made;
  (after == kNone ? last_ : at(after).before) = made;
  ++count_;
  return made;
}

void Pool::remove(Index index) {
  const Block& gone = block(index);
  (gone.before == kNone ? first_ : at(gone.before).after) = gone.after;
  (gone.after == kNone ? last_ : at(gone.after).before) = gone.before;
  spare_.push_back(index);
  --count_;
}

}  // namespace edgemem::remat
