// A plan as a stream of expected events, proved before it is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

struct em_plan {
 public:
  // Null, with the error set, unless every event makes sense and no two requests overlap while both are alive.
  static em_plan* create(std::span<const int64_t> events, std::span<const int64_t> offsets, int64_t size,
                         int64_t alignment);

  int64_t size() const { return size_; }
  int64_t alignment() const { return alignment_; }
  std::span<const int64_t> events() const { return events_; }
  std::size_t requests() const { return bytes_.size(); }
  int64_t offset(int64_t request) const { return offsets_[static_cast<std::size_t>(request)]; }
  int64_t bytes(int64_t request) const { return bytes_[static_cast<std::size_t>(request)]; }

  // The different offsets are numbered from 0 in ascending order; place_at gives places() for any other number.
  std::size_t places() const { return starts_.size(); }
  std::size_t place_of(int64_t request) const { return places_[static_cast<std::size_t>(request)]; }
  std::size_t place_at(int64_t offset) const;

  // References are counted: the creator's, and one for each run that replays the plan.
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

 private:
  em_plan() = default;
  void number_places();
  bool fill(std::span<const int64_t> events, std::span<const int64_t> offsets, int64_t size, int64_t alignment);

  int64_t size_ = 0;
  int64_t alignment_ = 1;
  std::vector<int64_t> events_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> bytes_;
  std::vector<int64_t> starts_;      // the different offsets, ascending
  std::vector<std::size_t> places_;  // by request: the index of its offset in starts_; of no meaning on the heap
  std::atomic<int64_t> references_{1};
};
