#include "replay/loop_slots.h"

#include <algorithm>
#include <exception>

#include "arena/memory.h"
#include "arena/totals.h"

namespace edgemem {

namespace {

bool lies_in(int64_t place, int64_t bytes, const em_slots& given) {
  return place >= 0 && place % given.alignment == 0 && place <= given.size - bytes;
}

// What is wrong with a slot, or null.
const char* fault_of_slot(const em_slot& slot, const em_slots& given) {
  if (slot.bytes < 1 || slot.bytes > kMostBytes) {
    return "a slot has a size that is impossible";
  }
  if (slot.lane < 0 || slot.lane >= EM_MOST_LANES || slot.section < -1) {
    return "a slot has a lane or a section that is impossible";
  }
  if (slot.space < -1 || slot.space >= given.spaces) {
    return "a slot names a space that is not there";
  }
  if (slot.offset == -1) {
    return slot.other == -1 ? nullptr : "a slot has a second place and no first";
  }
  if (slot.space >= 0) {
    return "a dynamic slot has an offset";
  }
  if (!lies_in(slot.offset, slot.bytes, given) || (slot.other != -1 && !lies_in(slot.other, slot.bytes, given))) {
    return "a slot has a place outside of the arena, or not aligned";
  }
  return nullptr;
}

bool are_ascending(const em_slots& given) {
  int64_t space = 0;
  int64_t reached = 0;
  for (int64_t k = 0; k < given.intervals_count; ++k) {
    const em_interval& part = given.intervals[k];
    if (part.space < space || part.space >= given.spaces) {
      return false;
    }
    if (part.space > space) {
      space = part.space;
      reached = 0;
    }
    if (part.begin < reached || part.begin >= part.end || part.end > given.size) {
      return false;
    }
    reached = part.end;
  }
  return true;
}

}  // namespace

const char* LoopSlots::fault_of(const em_slots& given) {
  if (given.size < 0 || given.size > kMostBytes || given.alignment < 1 || given.alignment > kMostBytes ||
      (given.alignment & (given.alignment - 1)) != 0) {
    return "the plan has a size or an alignment that is impossible";
  }
  if (given.count < 0 || given.count > kMostBytes || given.intervals_count < 0 || given.intervals_count > kMostBytes ||
      (given.count > 0 && given.slots == nullptr) || (given.intervals_count > 0 && given.intervals == nullptr)) {
    return "a plan needs slots and intervals";
  }
  if (given.spaces < 0 || given.spaces > EM_MOST_SPACES) {
    return "a plan cannot have so many spaces";
  }
  if (!are_ascending(given)) {
    return "the intervals of spaces do not ascend within the arena";
  }
  for (int64_t k = 0; k < given.count; ++k) {
    if (const char* fault = fault_of_slot(given.slots[k], given)) {
      return fault;
    }
  }
  return nullptr;
}

std::shared_ptr<const LoopSlots> LoopSlots::create(const em_slots& given, int32_t& code) noexcept {
  if (const char* fault = fault_of(given)) {
    set_error("%s", fault);
    code = EM_REFUSED;
    return nullptr;
  }
  try {
    auto made = std::make_shared<LoopSlots>();
    made->fill(given);
    code = EM_OK;
    return made;
  } catch (const std::exception&) {
    set_error("no memory for a plan of %lld slots", static_cast<long long>(given.count));
    code = EM_NO_MEMORY;
    return nullptr;
  }
}

void LoopSlots::fill(const em_slots& given) {
  size_ = given.size;
  alignment_ = given.alignment;
  spaces_.resize(static_cast<std::size_t>(given.spaces));
  for (int64_t k = 0; k < given.intervals_count; ++k) {
    const em_interval& part = given.intervals[k];
    spaces_[static_cast<std::size_t>(part.space)].push_back({part.begin, part.end});
  }
  std::vector<double> bytes;
  for (int64_t k = 0; k < given.count; ++k) {
    const em_slot& slot = given.slots[k];
    const auto number = static_cast<std::size_t>(slot.lane);
    if (number >= lanes_.size()) {
      lanes_.resize(number + 1);
      bytes.resize(number + 1);
    }
    Lane& lane = lanes_[number];
    if (lane.slots.empty() || lane.slots.back().section != slot.section) {
      lane.runs.push_back({slot.section, static_cast<int64_t>(lane.slots.size())});
    }
    lane.slots.push_back({slot.bytes, slot.offset, slot.other, slot.section, slot.space});
    bytes[number] += static_cast<double>(slot.bytes);
  }
  for (Lane& lane : lanes_) {
    std::sort(lane.runs.begin(), lane.runs.end());
  }
  largest_lane_ = std::max_element(bytes.begin(), bytes.end()) - bytes.begin();
}

int64_t LoopSlots::find_section(int64_t lane, int64_t section, int64_t from) const {
  const std::vector<Run>& runs = lanes_[static_cast<std::size_t>(lane)].runs;
  for (const int64_t start : {from, int64_t{0}}) {
    const auto found = std::lower_bound(runs.begin(), runs.end(), Run{section, start});
    if (found != runs.end() && found->section == section) {
      return found->begin;
    }
  }
  return -1;
}

}  // namespace edgemem
