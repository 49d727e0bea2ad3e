#include "replay/replay_plan.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>

#include "arena/totals.h"

using edgemem::set_error;

em_plan* em_plan::create(std::span<const int64_t> events, std::span<const int64_t> offsets, int64_t size,
                         int64_t alignment) {
  try {
    std::unique_ptr<em_plan> plan(new em_plan);
    return plan->fill(events, offsets, size, alignment) ? plan.release() : nullptr;
  } catch (const std::exception&) {
    set_error("no memory for a plan of %zu events", events.size());
    return nullptr;
  }
}

void em_plan::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

bool em_plan::fill(std::span<const int64_t> events, std::span<const int64_t> offsets, int64_t size, int64_t alignment) {
  if (size < 0 || alignment < 1 || (alignment & (alignment - 1)) != 0 || alignment > 64) {
    set_error("a plan has a size, and an alignment that is a power of two up to 64");
    return false;
  }
  size_ = size;
  alignment_ = alignment;
  events_.assign(events.begin(), events.end());
  offsets_.assign(offsets.begin(), offsets.end());
  bytes_.reserve(offsets.size());
  std::map<int64_t, int64_t> placed;  // offset -> end of what is alive in the arena
  std::vector<bool> alive;
  alive.reserve(offsets.size());
  for (std::size_t k = 0; k < events.size(); ++k) {
    const auto at = static_cast<long long>(k);
    if (events[k] > 0) {
      const std::size_t request = bytes_.size();
      if (request == offsets.size()) {
        set_error("event %lld of the plan asks for more requests than it has places", at);
        return false;
      }
      const int64_t bytes = events[k];
      const int64_t offset = offsets[request];
      bytes_.push_back(bytes);
      alive.push_back(true);
      if (offset == -1) {
        continue;
      }
      if (offset < 0 || offset % alignment != 0 || bytes > size || offset > size - bytes) {
        set_error("request %zu of the plan is outside the arena or misaligned", request);
        return false;
      }
      const auto after = placed.lower_bound(offset);
      const bool meets_next = after != placed.end() && after->first < offset + bytes;
      if (meets_next || (after != placed.begin() && std::prev(after)->second > offset)) {
        set_error("request %zu of the plan overlaps another one that is alive", request);
        return false;
      }
      placed.emplace_hint(after, offset, offset + bytes);
    } else {
      const int64_t freed = -(events[k] + 1);
      if (events[k] == 0 || freed >= static_cast<int64_t>(bytes_.size()) || !alive[static_cast<std::size_t>(freed)]) {
        set_error("event %lld of the plan frees what is not alive", at);
        return false;
      }
      alive[static_cast<std::size_t>(freed)] = false;
      placed.erase(offsets[static_cast<std::size_t>(freed)]);
    }
  }
  if (bytes_.size() != offsets.size()) {
    set_error("the plan has %zu places for %zu requests", offsets.size(), bytes_.size());
    return false;
  }
  number_places();
  return true;
}

void em_plan::number_places() {
  starts_ = offsets_;
  std::erase(starts_, -1);
  std::sort(starts_.begin(), starts_.end());
  starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
  places_.reserve(offsets_.size());
  for (const int64_t offset : offsets_) {
    places_.push_back(place_at(offset));
  }
}

std::size_t em_plan::place_at(int64_t offset) const {
  const auto found = std::lower_bound(starts_.begin(), starts_.end(), offset);
  const bool is_start = found != starts_.end() && *found == offset;
  return is_start ? static_cast<std::size_t>(found - starts_.begin()) : starts_.size();
}
