#include "proof/offsets.h"

#include <algorithm>

namespace edgemem::proof {
namespace {

class PlacementCheck {
 public:
  PlacementCheck(const Records& records, const Placement& placement)
      : records_(records), placement_(placement), placed_(records.count(), true) {
    check(records);
    require(placement.offsets.size() == records.count(), "offsets and records differ in length");
    require(placement.region.empty() || placement.region.size() == records.count(),
            "regions and records differ in length");
    const std::size_t ranges = records.reserved.size() / 2;
    require(placement.reserved_region.empty() || placement.reserved_region.size() == ranges,
            "reserved ranges and their regions differ in length");
    for (std::size_t k = 1; k < ranges; ++k) {
      const bool same = reserved_region(k - 1) == reserved_region(k);
      require(reserved_region(k - 1) <= reserved_region(k) &&
                  (!same || records.reserved[2 * k - 1] <= records.reserved[2 * k]),
              "reserved ranges are not in ascending order");
    }
  }

  std::vector<Value> faults() {
    places();
    arenas();
    pins();
    const std::vector<bool> broken = nested();
    if (!found_.full()) find_overlaps(records_, placement_, broken, placed_, found_);
    return std::move(found_).take();
  }

 private:
  Value region(std::size_t i) const { return placement_.region.empty() ? 0 : placement_.region[i]; }
  Value reserved_region(std::size_t k) const {
    return placement_.reserved_region.empty() ? 0 : placement_.reserved_region[k];
  }

  void add(Cause cause, std::size_t i, Value number = 0) {
    found_.add({cause, static_cast<Value>(i), -1, -1, {number}});
  }

  // offset + size > arena, without overflow
  static bool outside(Value offset, Value size, Value arena) {
    if (offset < 0) return offset + size > arena;
    return arena < 0 || offset > arena - size;
  }

  void places() {
    for (std::size_t i = 0; i < records_.count() && !found_.full(); ++i) {
      const Value offset = placement_.offsets[i];
      if (offset < 0) add(Cause::kNegativeOffset, i);
      if ((offset & (records_.alignment - 1)) != 0) add(Cause::kMisaligned, i);
      if (region(i) < 0 || static_cast<std::size_t>(region(i)) >= placement_.arena.size()) {
        placed_[i] = false;
        add(Cause::kNoSuchRegion, i, region(i));
      } else if (outside(offset, records_.size[i], placement_.arena[static_cast<std::size_t>(region(i))])) {
        add(Cause::kOutsideArena, i);
      }
    }
  }

  void arenas() {
    if (found_.full()) return;
    std::vector<Value> highest(placement_.arena.size(), -1);  // last bytes
    for (std::size_t i = 0; i < records_.count(); ++i) {
      if (records_.size[i] == 0 || !placed_[i]) continue;
      Value& top = highest[static_cast<std::size_t>(region(i))];
      top = std::max(top, last_byte(placement_.offsets[i], records_.size[i]));
    }
    for (std::size_t r = 0; r < highest.size(); ++r) {
      if (placement_.arena[r] > 0 && highest[r] < placement_.arena[r] - 1) {
        add(Cause::kArenaTooLarge, r, highest[r] + 1);
      }
    }
  }

  void pins() {
    const Column ranges = records_.reserved;
    if (records_.pinned.empty() && ranges.empty()) return;
    for (std::size_t i = 0; i < records_.count() && !found_.full(); ++i) {
      if (records_.size[i] == 0) continue;
      const Value offset = placement_.offsets[i];
      if (records_.is_pinned(i) && records_.pinned[i] != offset) add(Cause::kNotWherePinned, i);
      // The range that begins last up to the record's last byte; those before it end below that range.
      const Value top = last_byte(offset, records_.size[i]);
      std::size_t low = 0;
      std::size_t high = ranges.size() / 2;
      while (low < high) {
        const std::size_t k = (low + high) / 2;
        const Value other = reserved_region(k);
        if (other < region(i) || (other == region(i) && ranges[2 * k] <= top)) {
          low = k + 1;
        } else {
          high = k;
        }
      }
      if (low > 0 && reserved_region(low - 1) == region(i) && ranges[2 * low - 1] > offset) {
        add(Cause::kInReserved, i, static_cast<Value>(low - 1));
      }
    }
  }

  // Which rows of `within` do not hold.
  std::vector<bool> nested() {
    const std::vector<Within> rows = withins(records_);
    std::vector<bool> broken(rows.size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const auto& [inner, outer, delta] = rows[k];
      if (records_.size[inner] == 0) continue;
      const Value at = placement_.offsets[inner];
      const Value base = placement_.offsets[outer];
      const bool holds =
          delta >= 0 && delta <= records_.size[outer] - records_.size[inner] && at >= base &&
          static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(base) == static_cast<std::uint64_t>(delta) &&
          region(inner) == region(outer);
      if (holds) continue;
      broken[k] = true;
      found_.add({Cause::kNotWithin, static_cast<Value>(inner), static_cast<Value>(outer), -1, {delta}});
    }
    return broken;
  }

  const Records& records_;
  const Placement& placement_;
  std::vector<bool> placed_;
  Faults found_;
};

}  // namespace

std::vector<Value> find_offset_faults(const Records& records, const Placement& placement) {
  return PlacementCheck(records, placement).faults();
}

}  // namespace edgemem::proof
