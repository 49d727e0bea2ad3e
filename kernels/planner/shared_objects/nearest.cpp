#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/object_table.h"

namespace edgemem {
namespace {

// A record that has no object yet, and the object it would take now.
struct Waiting {
  std::int64_t first;
  std::int64_t last;
  std::int64_t content;
  std::int64_t gap;  // kInt64Max: no object is free
  std::int32_t object;
  std::int32_t record;
};

template <std::size_t Rank>
class NearestFirst {
 public:
  NearestFirst(const ObjectRecords& records, Column stage, bool new_first, Poll poll)
      : objects_(records), stage_(stage), new_first_(new_first), poll_(std::move(poll)) {
    waiting_.reserve(records.count());
    for (std::size_t i = 0; i < records.count(); ++i) {
      waiting_.push_back(
          {records.first[i], records.last[i], objects_.record_content(i), kInt64Max, 0, static_cast<std::int32_t>(i)});
    }
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [this](const Waiting& a, const Waiting& b) { return stage_of(a) < stage_of(b); });
  }

  std::vector<std::int64_t> run() {
    std::vector<std::int64_t> assignment(waiting_.size());
    for (auto next = waiting_.begin(); next != waiting_.end();) {
      const auto stage_end = std::partition_point(
          next, waiting_.end(), [this, next](const Waiting& other) { return stage_of(other) == stage_of(*next); });
      auto best =
          std::min_element(next, stage_end, [this](const Waiting& a, const Waiting& b) { return comes_before(a, b); });
      for (; next != stage_end; ++next) {
        poll_.step();
        std::iter_swap(next, best);
        best = place(*next, next + 1, stage_end);
        assignment[static_cast<std::size_t>(next->record)] = next->object;
      }
    }
    return assignment;
  }

 private:
  using Iterator = typename std::vector<Waiting>::iterator;

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::int64_t stage_of(const Waiting& waiting) const { return stage_[index(waiting.record)]; }

  bool comes_before(const Waiting& a, const Waiting& b) const {
    const auto idle = [this](const Waiting& w) { return new_first_ && w.gap == kInt64Max ? -1 : w.gap; };
    if (idle(a) != idle(b)) return idle(a) < idle(b);
    return a.content != b.content ? a.content > b.content : a.record < b.record;
  }

  // Gives `placed` its object and updates the records that wait, from `rest` on. Returns the stage's next record.
  Iterator place(Waiting& placed, Iterator rest, Iterator stage_end) {
    const bool opens = placed.gap == kInt64Max;
    bool grew = false;
    if (opens) {
      placed.object = static_cast<std::int32_t>(objects_.count());
      objects_.open(index(placed.record));
    } else {
      grew = objects_.join(index(placed.object), index(placed.record));
    }
    auto best = rest;
    for (auto other = rest; other != stage_end; ++other) {
      update(*other, placed, grew);
      if (comes_before(*other, *best)) best = other;
    }
    for (auto other = stage_end; other != waiting_.end(); ++other) update(*other, placed, grew);
    return best;
  }

  void update(Waiting& waiting, const Waiting& placed, bool grew) {
    const std::int64_t gap = std::max(placed.first - waiting.last, waiting.first - placed.last);
    if (gap <= 0) {
      if (waiting.object == placed.object && waiting.gap != kInt64Max) choose_again(waiting);
    } else if (gap < waiting.gap && may_take(waiting, index(placed.object))) {
      waiting.gap = gap;
      waiting.object = placed.object;
    } else if (Rank > 1 && grew) {
      reconsider(waiting, placed.object);
    }
  }

  bool may_take(const Waiting& waiting, std::size_t object) const {
    return objects_.is_free(object, index(waiting.record)) && objects_.fits(object, index(waiting.record));
  }

  // An object that grew may have become too large for a record that wanted it, or large enough for another.
  void reconsider(Waiting& waiting, std::int32_t object) {
    if (waiting.object == object && waiting.gap != kInt64Max) {
      if (!objects_.fits(index(object), index(waiting.record))) choose_again(waiting);
    } else if (may_take(waiting, index(object))) {
      const std::int64_t gap = objects_.gap(index(object), index(waiting.record));
      if (gap < waiting.gap) {
        waiting.gap = gap;
        waiting.object = object;
      }
    }
  }

  // The nearest of all free objects, the oldest of equals.
  void choose_again(Waiting& waiting) {
    waiting.gap = kInt64Max;
    for (std::size_t object = 0; object < objects_.count(); ++object) {
      if (!may_take(waiting, object)) continue;
      const std::int64_t gap = objects_.gap(object, index(waiting.record));
      if (gap < waiting.gap) {
        waiting.gap = gap;
        waiting.object = static_cast<std::int32_t>(object);
        if (gap == 1) break;
      }
    }
  }

  ObjectTable<Rank> objects_;
  Column stage_;
  bool new_first_;
  Poll poll_;
  std::vector<Waiting> waiting_;  // placed ones at the front, then ascending stages
};

}  // namespace

std::vector<std::int64_t> assign_nearest(const ObjectRecords& records, Column stage, bool new_first, Poll poll) {
  check(records);
  if (stage.size() != records.count()) throw std::invalid_argument("the stages differ in length from the records");
  switch (records.rank) {
    case 1:
      return NearestFirst<1>(records, stage, new_first, std::move(poll)).run();
    case 2:
      return NearestFirst<2>(records, stage, new_first, std::move(poll)).run();
    default:
      return NearestFirst<3>(records, stage, new_first, std::move(poll)).run();
  }
}

}  // namespace edgemem
