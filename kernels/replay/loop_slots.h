// The places of a plan as a loop replays them: the slots of each lane in order, and the spaces of dynamic ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "replay/edgemem_arena.h"
#include "replay/intervals.h"

namespace edgemem {

struct LoopSlot {
  int64_t bytes;
  int64_t offset;
  int64_t other;
  int64_t section;
  int64_t space;

  bool is_dynamic() const { return space >= 0; }
};

// Never changes. Every place and every interval lies in [0, size).
class LoopSlots {
 public:
  // Null, with the error and its code set, if a slot says something impossible or memory is short.
  static std::shared_ptr<const LoopSlots> create(const em_slots& given, int32_t& code) noexcept;

  int64_t size() const { return size_; }
  int64_t alignment() const { return alignment_; }
  int64_t lanes() const { return static_cast<int64_t>(lanes_.size()); }
  std::span<const LoopSlot> lane(int64_t number) const { return lanes_[static_cast<std::size_t>(number)].slots; }
  std::span<const Interval> space(int64_t number) const { return spaces_[static_cast<std::size_t>(number)]; }

  // The lane with the most bytes, the first of equals; 0 if there are no slots.
  int64_t largest_lane() const { return largest_lane_; }

  // Where slots of the section begin in the lane: the first such place from `from` on, else the first of all; -1 if
  // the lane has none.
  int64_t find_section(int64_t lane, int64_t section, int64_t from) const;

 private:
  // Slots of one section that follow each other.
  struct Run {
    int64_t section;
    int64_t begin;
    auto operator<=>(const Run&) const = default;
  };
  struct Lane {
    std::vector<LoopSlot> slots;
    std::vector<Run> runs;  // ascending
  };

  static const char* fault_of(const em_slots& given);
  void fill(const em_slots& given);

  int64_t size_ = 0;
  int64_t alignment_ = 1;
  int64_t largest_lane_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::vector<Interval>> spaces_;
};

}  // namespace edgemem
