#include "planner/offsets/search/pin_sides.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>

#include "planner/common/index.h"

namespace edgemem::offset_search {

namespace {

constexpr std::size_t kMostAlive = 128;  // free pieces in a section; others are left out
constexpr std::size_t kMostOpen = 28;    // pieces on either side of a pin, whose subsets are looked at
constexpr std::int64_t kMostMatches = 1 << 14;
constexpr std::int64_t kItemsInAStep = 16;

struct Sum {
  std::int64_t units;
  std::uint32_t members;
};

// The sums of all subsets, ascending.
std::vector<Sum> subset_sums(std::span<const std::int64_t> sizes) {
  std::vector<Sum> sums{{0, 0}};
  std::vector<Sum> with;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    with = sums;
    for (Sum& sum : with) sum = {sum.units + sizes[k], sum.members | (std::uint32_t{1} << k)};
    std::vector<Sum> merged(2 * sums.size());
    std::merge(sums.begin(), sums.end(), with.begin(), with.end(), merged.begin(),
               [](const Sum& a, const Sum& b) { return a.units < b.units; });
    sums = std::move(merged);
  }
  return sums;
}

// What the subsets of `sizes` with a sum from `least` to `most` have in common.
struct Subsets {
  std::uint32_t always = ~std::uint32_t{0};  // members of all of them
  std::uint32_t ever = 0;                    // members of any
  bool exist = false;
};

Subsets subsets_between(std::span<const std::int64_t> sizes, std::int64_t least, std::int64_t most, Budget& budget) {
  const std::size_t half = sizes.size() / 2;
  const std::vector<Sum> left = subset_sums(sizes.first(half));
  const std::vector<Sum> right = subset_sums(sizes.subspan(half));
  const std::uint32_t all = (std::uint32_t{1} << sizes.size()) - 1;
  Subsets found;
  std::int64_t matches = 0;
  std::size_t first = right.size();  // the least sum of the right half that reaches `least`
  std::size_t last = right.size();   // behind the greatest one within `most`
  for (const Sum& sum : left) {
    while (first > 0 && sum.units + right[first - 1].units >= least) --first;
    while (last > 0 && sum.units + right[last - 1].units > most) --last;
    for (std::size_t k = first; k < last; ++k) {
      const std::uint32_t members = sum.members | right[k].members << half;
      found.exist = true;
      found.always &= members;
      found.ever |= members;
      if (++matches == kMostMatches || (found.always == 0 && found.ever == all)) {
        found.always = 0;
        found.ever = all;
        budget.spend(matches / kItemsInAStep);
        return found;
      }
    }
  }
  budget.spend((static_cast<std::int64_t>(left.size() + right.size()) + matches) / kItemsInAStep);
  return found;
}

class Narrowing {
 public:
  Narrowing(const Part& part, const PinsBySection& pins, const Ceiling& ceiling, std::span<const std::int64_t> room,
            Budget& budget)
      : part_(part), pins_(pins), ceiling_(ceiling), room_(room), budget_(budget), changed_(at(part.sections()), 1) {
    for (std::size_t i = 0; i < at(part.count()); ++i) {
      budget.pass();
      ranges.push_back({0, std::numeric_limits<std::int64_t>::max()});
    }
    list_pieces();
  }

  std::vector<OffsetRange> ranges;

  // Looks at every section until nothing changes. False if there is no placement.
  bool run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::int32_t t = 0; t < part_.sections(); ++t) {
        if (changed_[at(t)] == 0) continue;
        changed_[at(t)] = 0;
        goes_on = true;
        if (!narrow_section(t)) return false;
        if (budget_.out_of_work() || budget_.out_of_time()) return true;
      }
    }
    return true;
  }

 private:
  // The free pieces of each section that has pins and not too many pieces.
  void list_pieces() {
    const std::size_t sections = at(part_.sections());
    std::vector<std::size_t> alive(sections + 1, 0);
    const auto visit = [&](const auto& count_in) {
      for (std::int32_t i = 0; i < part_.count(); ++i) {
        if (part_.is_pinned(i)) continue;
        budget_.pass(part_.end[at(i)] - part_.begin[at(i)]);
        for (std::int32_t t = part_.begin[at(i)]; t < part_.end[at(i)]; ++t) count_in(at(t), i);
      }
    };
    visit([&](std::size_t t, std::int32_t) { ++alive[t]; });
    for (std::size_t t = 0; t < sections; ++t) {
      const bool is_listed = alive[t] <= kMostAlive && !pins_.of(static_cast<std::int32_t>(t)).empty();
      if (!is_listed) alive[t] = changed_[t] = 0;
    }
    begin_.assign(sections + 1, 0);
    std::partial_sum(alive.begin(), alive.end() - 1, begin_.begin() + 1);
    pieces_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    visit([&](std::size_t t, std::int32_t i) {
      if (alive[t] > 0) pieces_[next[t]++] = i;
    });
  }

  // Splits the section's pieces at each of its pins.
  bool narrow_section(std::int32_t t) {
    std::int64_t filled = 0;  // by the pins below
    for (const Pin& pin : pins_.of(t)) {
      if (pin.begin >= ceiling_.units) break;
      if (!split_at(t, pin, pin.begin - filled)) return false;
      filled += pin.end - pin.begin;
    }
    return true;
  }

  // `below`: units below the pin that are for free pieces, all of them but for what the section may waste.
  bool split_at(std::int32_t t, const Pin& pin, std::int64_t below) {
    open_.clear();
    sizes_.clear();
    std::int64_t total = 0;
    for (std::size_t k = begin_[at(t)]; k < begin_[at(t) + 1]; ++k) {
      const std::int32_t i = pieces_[k];
      const OffsetRange& range = ranges[at(i)];
      const std::int64_t size = part_.size[at(i)];
      const bool fits_below = range.lowest + size <= pin.begin;
      const bool fits_above = range.highest >= pin.end && pin.end + size <= ceiling_.over(part_.tail[at(i)]);
      if (!fits_below && !fits_above) return false;
      if (!fits_above) {
        below -= size;
        if (!put_below(i, pin)) return false;
      } else if (!fits_below) {
        if (!put_above(i, pin)) return false;
      } else {
        open_.push_back(i);
        sizes_.push_back(size);
        total += size;
      }
    }
    budget_.spend(1 + static_cast<std::int64_t>(open_.size()) / kItemsInAStep);
    const std::int64_t least = below - room_[at(t)];
    if (below < 0 || total < least) return false;
    if (open_.size() > kMostOpen || (least <= 0 && total <= below)) return true;
    const Subsets subsets = subsets_between(sizes_, least, below, budget_);
    if (!subsets.exist) return false;
    for (std::size_t k = 0; k < open_.size(); ++k) {
      if ((subsets.always >> k & 1U) != 0 && !put_below(open_[k], pin)) return false;
      if ((subsets.ever >> k & 1U) == 0 && !put_above(open_[k], pin)) return false;
    }
    return true;
  }

  bool put_below(std::int32_t piece, const Pin& pin) {
    OffsetRange& range = ranges[at(piece)];
    const std::int64_t highest = pin.begin - part_.size[at(piece)];
    if (range.highest > highest) {
      range.highest = highest;
      note_change(piece);
    }
    return range.lowest <= range.highest;
  }

  bool put_above(std::int32_t piece, const Pin& pin) {
    OffsetRange& range = ranges[at(piece)];
    if (range.lowest < pin.end) {
      range.lowest = pin.end;
      note_change(piece);
    }
    return range.lowest <= range.highest;
  }

  void note_change(std::int32_t piece) {
    for (std::int32_t t = part_.begin[at(piece)]; t < part_.end[at(piece)]; ++t) {
      if (begin_[at(t)] < begin_[at(t) + 1]) changed_[at(t)] = 1;
    }
  }

  const Part& part_;
  const PinsBySection& pins_;
  const Ceiling& ceiling_;
  const std::span<const std::int64_t> room_;
  Budget& budget_;
  std::vector<char> changed_;         // [sections] whether a range changed since the section was looked at
  std::vector<std::size_t> begin_;    // [sections + 1] into pieces_
  std::vector<std::int32_t> pieces_;  // section by section
  std::vector<std::int32_t> open_;    // pieces that may lie on either side of the pin
  std::vector<std::int64_t> sizes_;   // of those
};

}  // namespace

std::optional<std::vector<OffsetRange>> offset_ranges(const Part& part, const PinsBySection& pins,
                                                      const Ceiling& ceiling, std::span<const std::int64_t> room,
                                                      Budget& budget) {
  Narrowing narrowing(part, pins, ceiling, room, budget);
  if (!narrowing.run()) return std::nullopt;
  return std::move(narrowing.ranges);
}

}  // namespace edgemem::offset_search
