// The objects made so far: how large each is, and when it is in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/shared_objects/object_records.h"

namespace edgemem {

template <std::size_t Rank>
class ObjectTable {
 public:
  explicit ObjectTable(const ObjectRecords& records) : records_(records) {
    const std::size_t n = records.count();
    if (n != 0) {
      start_ = *std::min_element(records.first.begin(), records.first.end());
      const auto span =
          static_cast<std::uint64_t>(*std::max_element(records.last.begin(), records.last.end()) - start_);
      while ((span >> shift_) >= kBuckets) ++shift_;
    }
    content_.reserve(n);
    masks_.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
      content_.push_back(edgemem::content(extent_of<Rank>(records, i)));
      masks_.push_back(masks_of(records.first[i], records.last[i]));
    }
  }

  std::size_t count() const { return schedules_.size(); }
  std::int64_t record_content(std::size_t record) const { return content_[record]; }
  std::int64_t object_content(std::size_t object) const { return object_content_[object]; }

  // By how much the object's content would grow if the record joined it.
  std::int64_t growth(std::size_t object, std::size_t record) const {
    if constexpr (Rank == 1) {
      return std::max<std::int64_t>(content_[record] - object_content_[object], 0);
    } else {
      return edgemem::content(cover(extents_[object], extent_of<Rank>(records_, record))) - object_content_[object];
    }
  }

  // Whether a new object would not be cheaper.
  bool fits(std::size_t object, std::size_t record) const {
    return Rank == 1 || growth(object, record) <= content_[record];
  }

  bool is_free(std::size_t object, std::size_t record) const {
    const Masks& object_mask = object_masks_[object];
    const Masks& record_mask = masks_[record];
    if ((object_mask.touched & record_mask.touched) == 0) return true;
    if ((object_mask.filled & record_mask.touched) != 0 || (object_mask.touched & record_mask.filled) != 0)
      return false;
    return gap(object, record) > 0;
  }

  // Operators from the record to the object's nearest other record (1: the next operator), 0 where they conflict.
  std::int64_t gap(std::size_t object, std::size_t record) const {
    const auto& schedule = schedules_[object];
    const std::int64_t first = records_.first[record];
    const std::int64_t last = records_.last[record];
    const auto next = std::partition_point(schedule.begin(), schedule.end(),
                                           [first](const Usage& usage) { return usage.last < first; });
    std::int64_t nearest = kInt64Max;
    if (next != schedule.end()) {
      if (next->first <= last) return 0;
      nearest = next->first - last;
    }
    if (next != schedule.begin()) nearest = std::min(nearest, first - (next - 1)->last);
    return nearest;
  }

  void open(std::size_t record) {
    schedules_.push_back({{records_.first[record], records_.last[record]}});
    object_content_.push_back(content_[record]);
    object_masks_.push_back(masks_[record]);
    if constexpr (Rank > 1) extents_.push_back(extent_of<Rank>(records_, record));
  }

  // The record joins a free object. Whether the object changed its extent.
  bool join(std::size_t object, std::size_t record) {
    auto& schedule = schedules_[object];
    const Usage usage{records_.first[record], records_.last[record]};
    schedule.insert(std::partition_point(schedule.begin(), schedule.end(),
                                         [&usage](const Usage& other) { return other.last < usage.first; }),
                    usage);
    object_masks_[object].touched |= masks_[record].touched;
    object_masks_[object].filled |= masks_[record].filled;
    if constexpr (Rank == 1) {
      const bool grew = content_[record] > object_content_[object];
      object_content_[object] = std::max(object_content_[object], content_[record]);
      return grew;
    } else {
      const Extent<Rank> both = cover(extents_[object], extent_of<Rank>(records_, record));
      const bool grew = both != extents_[object];
      extents_[object] = both;
      object_content_[object] = edgemem::content(both);
      return grew;
    }
  }

 private:
  static constexpr std::uint64_t kBuckets = 64;

  struct Usage {  // inclusive
    std::int64_t first;
    std::int64_t last;
  };

  // Time in 64 buckets: those with any use, and those in use from end to end. They decide most questions between long
  // intervals without a search.
  struct Masks {
    std::uint64_t touched = 0;
    std::uint64_t filled = 0;
  };

  static std::uint64_t bits(std::uint64_t from, std::uint64_t to) {  // half-open
    return from >= to ? 0 : (~std::uint64_t{0} >> (kBuckets - (to - from))) << from;
  }

  Masks masks_of(std::int64_t first, std::int64_t last) const {
    const auto from = static_cast<std::uint64_t>(first - start_);
    const auto to = static_cast<std::uint64_t>(last - start_);
    const std::uint64_t rest = (std::uint64_t{1} << shift_) - 1;
    return {bits(from >> shift_, (to >> shift_) + 1), bits((from + rest) >> shift_, (to + 1) >> shift_)};
  }

  const ObjectRecords records_;
  std::int64_t start_ = 0;
  int shift_ = 0;
  std::vector<std::int64_t> content_;
  std::vector<Masks> masks_;
  std::vector<std::vector<Usage>> schedules_;  // per object, ascending
  std::vector<std::int64_t> object_content_;
  std::vector<Masks> object_masks_;
  std::vector<Extent<Rank>> extents_;  // unused for bytes, where the content is the extent
};

}  // namespace edgemem
