#include "proof/objects.h"

#include <algorithm>

namespace edgemem::proof {
namespace {

class SharingCheck {
 public:
  SharingCheck(const Extents& records, const Sharing& sharing) : records_(records), sharing_(sharing) {
    const std::size_t count = records.first.size();
    require(count < kNone, "more records than 32 bits count");
    require(records.last.size() == count, "first_op and last_op differ in length");
    require(records.rank >= 1 && records.rank <= 3, "an extent has one to three dimensions");
    require(records.extent.size() == count * records.rank, "first_op and extent differ in length");
    require(sharing.assignment.size() == count, "objects and records differ in length");
    require(sharing.rank >= 1 && sharing.object.size() % sharing.rank == 0, "objects are not whole rows");
    for (std::size_t i = 0; i < count; ++i) {
      require(records.first[i] >= 0 && records.first[i] <= records.last[i], "a record ends before it begins");
    }
    for (const Value side : records.extent) require(side >= 0, "a record has a negative size");
  }

  std::vector<Value> faults() {
    group();
    for (std::size_t k = 0; k + 1 < begin_.size() && !found_.full(); ++k) {
      const Members inside(members_.data() + begin_[k], begin_[k + 1] - begin_[k]);
      if (inside.empty()) {
        found_.add({Cause::kEmptyObject, static_cast<Value>(k)});
        continue;
      }
      size(k, inside);
      use(k, inside);
    }
    return std::move(found_).take();
  }

 private:
  using Members = std::span<const Index>;

  // The members of every object by where they begin; reports those of none.
  void group() {
    const std::size_t objects = sharing_.object.size() / sharing_.rank;
    const auto exists = [&](Value object) { return object >= 0 && static_cast<std::size_t>(object) < objects; };
    begin_.assign(objects + 1, 0);
    Order births;
    births.reserve(records_.first.size());
    for (std::size_t i = 0; i < records_.first.size(); ++i) {
      const Value object = sharing_.assignment[i];
      if (exists(object)) {
        births.emplace_back(records_.first[i], static_cast<Index>(i));
        ++begin_[static_cast<std::size_t>(object) + 1];
      } else {
        found_.add({Cause::kNoSuchObject, static_cast<Value>(i), -1, -1, {object}});
      }
    }
    sort(births);
    for (std::size_t k = 0; k < objects; ++k) begin_[k + 1] += begin_[k];
    members_.resize(births.size());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [first, i] : births) members_[next[static_cast<std::size_t>(sharing_.assignment[i])]++] = i;
  }

  void size(std::size_t k, Members inside) {
    Fault fault{Cause::kObjectTooSmall, static_cast<Value>(k)};
    bool small = false;
    bool large = false;
    for (std::size_t d = 0; d < std::max(records_.rank, sharing_.rank); ++d) {
      const Value side = d < sharing_.rank ? sharing_.object[k * sharing_.rank + d] : Sharing::kAbsent;
      if (d >= records_.rank) {
        small = small || side != Sharing::kAbsent;
        continue;
      }
      Value need = 0;
      for (const Index i : inside) need = std::max(need, records_.extent[i * records_.rank + d]);
      fault.number[d] = need;
      small = small || side < need;
      large = large || side > need;
    }
    if (!small) fault.cause = Cause::kObjectTooLarge;
    if (small || large) found_.add(fault);
  }

  void use(std::size_t k, Members inside) {
    Index holder = inside[0];
    for (const Index i : inside.subspan(1)) {
      if (found_.full()) return;
      if (records_.first[i] <= records_.last[holder]) {
        found_.add({Cause::kObjectShared,
                    static_cast<Value>(holder),
                    static_cast<Value>(i),
                    records_.first[i],
                    {static_cast<Value>(k)}});
      }
      if (records_.last[i] > records_.last[holder]) holder = i;
    }
  }

  const Extents& records_;
  const Sharing& sharing_;
  std::vector<std::size_t> begin_;  // of each object's members
  std::vector<Index> members_;
  Faults found_;
};

}  // namespace

std::vector<Value> find_object_faults(const Extents& records, const Sharing& sharing) {
  return SharingCheck(records, sharing).faults();
}

}  // namespace edgemem::proof
