#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "planner/shared_objects.h"
#include "planner/shared_objects_table.h"

namespace edgemem {
namespace {

// A record that has no object yet, and the object it would take now.
struct Waiting {
  std::int64_t first;
  std::int64_t last;
  std::int64_t gap;  // kInt64Max: no object is free
  std::size_t object;
  std::size_t record;
};

template <std::size_t Rank>
class NearestFirst {
 public:
  NearestFirst(const ObjectRecords& records, Column stage, bool new_first)
      : objects_(records), stage_(stage), new_first_(new_first) {
    waiting_.reserve(records.count());
    for (std::size_t i = 0; i < records.count(); ++i) {
      waiting_.push_back({records.first[i], records.last[i], kInt64Max, 0, i});
    }
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& a, const Waiting& b) { return stage[a.record] < stage[b.record]; });
  }

  std::vector<std::int64_t> run() {
    std::vector<std::int64_t> assignment(waiting_.size());
    auto stage_end = waiting_.begin();
    for (auto begin = waiting_.begin(); begin != waiting_.end(); ++begin) {
      if (begin == stage_end) {
        stage_end = std::partition_point(
            begin, waiting_.end(), [&](const Waiting& other) { return stage_[other.record] == stage_[begin->record]; });
      }
      std::iter_swap(begin, std::min_element(begin, stage_end, [this](const Waiting& a, const Waiting& b) {
                       return comes_before(a, b);
                     }));
      assignment[begin->record] = static_cast<std::int64_t>(place(*begin, begin + 1));
    }
    return assignment;
  }

 private:
  using Iterator = typename std::vector<Waiting>::iterator;

  bool comes_before(const Waiting& a, const Waiting& b) const {
    const auto idle = [this](const Waiting& w) { return new_first_ && w.gap == kInt64Max ? -1 : w.gap; };
    if (idle(a) != idle(b)) return idle(a) < idle(b);
    const std::int64_t content_a = objects_.record_content(a.record);
    const std::int64_t content_b = objects_.record_content(b.record);
    if (content_a != content_b) return content_a > content_b;
    return a.record < b.record;
  }

  // Gives `placed` its object and tells the records that still wait, from `rest` on.
  std::size_t place(const Waiting& placed, Iterator rest) {
    const bool opens = placed.gap == kInt64Max;
    const std::size_t object = opens ? objects_.count() : placed.object;
    bool grew = opens;
    if (opens) {
      objects_.open(placed.record);
    } else {
      grew = objects_.join(object, placed.record);
    }
    for (auto other = rest; other != waiting_.end(); ++other) {
      const std::int64_t gap = std::max(placed.first - other->last, other->first - placed.last);
      if (gap <= 0) {
        if (other->gap != kInt64Max && other->object == object) choose_again(*other);
      } else if (gap < other->gap && objects_.is_free(object, other->record) && objects_.fits(object, other->record)) {
        other->gap = gap;
        other->object = object;
      } else if (Rank > 1 && grew && !opens) {
        reconsider(*other, object);
      }
    }
    return object;
  }

  // An object that grew may have become too large for a record that wanted it, or large enough for another.
  void reconsider(Waiting& waiting, std::size_t object) {
    const bool fits = objects_.fits(object, waiting.record);
    if (waiting.gap != kInt64Max && waiting.object == object) {
      if (!fits) choose_again(waiting);
    } else if (fits) {
      const std::int64_t gap = objects_.gap(object, waiting.record);
      if (gap > 0 && gap < waiting.gap) {
        waiting.gap = gap;
        waiting.object = object;
      }
    }
  }

  // The nearest of all free objects, the oldest of equals.
  void choose_again(Waiting& waiting) {
    waiting.gap = kInt64Max;
    for (std::size_t object = 0; object < objects_.count(); ++object) {
      if (!objects_.is_free(object, waiting.record) || !objects_.fits(object, waiting.record)) continue;
      const std::int64_t gap = objects_.gap(object, waiting.record);
      if (gap < waiting.gap) {
        waiting.gap = gap;
        waiting.object = object;
        if (gap == 1) break;
      }
    }
  }

  ObjectTable<Rank> objects_;
  Column stage_;
  bool new_first_;
  std::vector<Waiting> waiting_;  // placed ones at the front, then ascending stages
};

}  // namespace

std::vector<std::int64_t> assign_nearest(const ObjectRecords& records, Column stage, bool new_first) {
  check(records);
  if (stage.size() != records.count()) throw std::invalid_argument("the stages differ in length from the records");
  switch (records.rank) {
    case 1:
      return NearestFirst<1>(records, stage, new_first).run();
    case 2:
      return NearestFirst<2>(records, stage, new_first).run();
    default:
      return NearestFirst<3>(records, stage, new_first).run();
  }
}

}  // namespace edgemem
