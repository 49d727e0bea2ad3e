#include "replay/loop_matcher.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace edgemem {

bool LoopMatcher::follow(std::shared_ptr<const LoopSlots> slots) noexcept {
  try {
    cursors_.resize(slots == nullptr ? 0 : static_cast<std::size_t>(slots->lanes()));
  } catch (const std::exception&) {
    return false;
  }
  slots_ = std::move(slots);
  begin_iteration();
  return true;
}

void LoopMatcher::begin_iteration() noexcept { std::fill(cursors_.begin(), cursors_.end(), Cursor{}); }

const LoopSlot* LoopMatcher::match(int64_t lane, SectionEntry entry, int64_t bytes) noexcept {
  if (lane < 0 || lane >= static_cast<int64_t>(cursors_.size())) {
    return nullptr;
  }
  const std::span<const LoopSlot> slots = slots_->lane(lane);
  Cursor& cursor = cursors_[static_cast<std::size_t>(lane)];
  const auto slot = [&](int64_t number) { return &slots[static_cast<std::size_t>(number)]; };
  const auto count = static_cast<int64_t>(slots.size());
  const auto is_inside = [&](int64_t number) { return number < count && slot(number)->section == entry.section; };
  if (entry.entry != cursor.entry) {
    cursor.entry = entry.entry;
    const int64_t found = is_inside(cursor.next) ? -1 : slots_->find_section(lane, entry.section, cursor.next);
    if (found >= 0) {
      cursor.next = found;
      cursor.passed = -1;
    }
  }
  const auto has_size = [&](int64_t number) {
    return is_inside(number) && !slot(number)->is_dynamic() && slot(number)->bytes == bytes;
  };
  const int64_t first = cursor.next;
  if (is_inside(first) && (slot(first)->is_dynamic() || slot(first)->bytes == bytes)) {
    ++cursor.next;
    return slot(first);
  }
  if (cursor.passed >= 0 && has_size(cursor.passed)) {
    return slot(std::exchange(cursor.passed, -1));
  }
  if (!is_inside(first)) {
    // More requests than the section had. Those of a dynamic section share the space of the last one.
    const LoopSlot* last = first > 0 ? slot(first - 1) : nullptr;
    return last != nullptr && last->is_dynamic() && last->section == entry.section ? last : nullptr;
  }
  cursor.passed = first;
  cursor.next = first + 1;
  for (int64_t k = first + 1; k <= first + kWindow && is_inside(k); ++k) {
    if (has_size(k)) {
      cursor.next = k + 1;
      return slot(k);
    }
  }
  return bytes < slot(first)->bytes ? slot(first) : nullptr;
}

}  // namespace edgemem
