// Occupied address ranges as a sorted set of disjoint intervals, and what remains free between several such sets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/common/builtins.h"

namespace edgemem {

struct Interval {  // half-open
  std::int64_t begin;
  std::int64_t end;
};

// A union of intervals; touching ones are merged.
class IntervalSet {
 public:
  const std::vector<Interval>& parts() const { return parts_; }
  void prefetch() const { edgemem::prefetch(parts_.data()); }

  void insert(Interval added) {
    const auto from = std::partition_point(parts_.begin(), parts_.end(),
                                           [&](const Interval& part) { return part.end < added.begin; });
    if (from == parts_.end() || from->begin > added.end) {
      parts_.insert(from, added);
      return;
    }
    from->begin = std::min(from->begin, added.begin);
    if (from->end >= added.end) return;
    auto to = from + 1;
    while (to != parts_.end() && to->begin <= added.end) ++to;
    from->end = std::max(added.end, (to - 1)->end);
    parts_.erase(from + 1, to);
  }

 private:
  std::vector<Interval> parts_;
};

// The free ranges of at least `need` bytes, lowest first. The last one has no end. Only ranges that can still hold the
// record are kept, so that cutting stays cheap however many intervals the sets hold.
class FreeRanges {
 public:
  void reset(std::int64_t need) {
    need_ = need;
    ranges_.assign(1, Interval{0, kUnbounded});
  }

  std::int64_t lowest() const { return ranges_.front().begin; }

  void cut(const IntervalSet& occupied) {
    const auto& parts = occupied.parts();
    if (parts.empty() || parts.back().end <= ranges_.front().begin) return;
    kept_.clear();
    auto part = parts.begin();
    for (const Interval& range : ranges_) {
      part = first_ending_after(part, parts.end(), range.begin);
      std::int64_t begin = range.begin;
      while (part != parts.end() && part->begin < range.end) {
        keep({begin, part->begin});
        begin = part->end;
        if (begin >= range.end) break;  // this part may reach into the next range
        ++part;
      }
      keep({begin, range.end});
    }
    ranges_.swap(kept_);
  }

  // As above, for intervals that are sorted by their beginning but may overlap.
  void cut_sorted(std::span<const Interval> occupied) {
    kept_.clear();
    auto next = occupied.begin();
    std::int64_t reached = 0;
    for (const Interval& range : ranges_) {
      std::int64_t begin = std::max(range.begin, reached);
      for (; next != occupied.end() && next->begin < range.end; ++next) {
        if (next->begin - begin >= need_) kept_.push_back({begin, next->begin});
        begin = std::max(begin, next->end);
      }
      keep({begin, range.end});
      reached = begin;
    }
    ranges_.swap(kept_);
  }

  // The beginning of the smallest range, the lowest of equals. The unbounded one is taken when there is no other.
  std::int64_t smallest() const {
    const auto bounded_end = ranges_.end() - 1;
    const auto best = std::min_element(ranges_.begin(), bounded_end, [](const Interval& a, const Interval& b) {
      return a.end - a.begin < b.end - b.begin;
    });
    return best->begin;  // of an empty search this is the unbounded one
  }

 private:
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  // The part is usually a step or two ahead, so the search begins with a narrow range.
  static std::vector<Interval>::const_iterator first_ending_after(std::vector<Interval>::const_iterator from,
                                                                  std::vector<Interval>::const_iterator to,
                                                                  std::int64_t address) {
    std::ptrdiff_t step = 1;
    while (to - from > step && from[step].end <= address) {
      from += step;
      step *= 2;
    }
    to = from + std::min(to - from, step + 1);
    return std::partition_point(from, to, [&](const Interval& part) { return part.end <= address; });
  }

  // The unbounded range always holds the record: `check` made sure that all of them fit into int64 end to end.
  bool holds(const Interval& range) const { return range.end == kUnbounded || range.end - range.begin >= need_; }

  void keep(Interval range) {
    if (holds(range)) kept_.push_back(range);
  }

  std::int64_t need_ = 0;
  std::vector<Interval> ranges_;
  std::vector<Interval> kept_;
};

}  // namespace edgemem
