#include "planner/offsets/search/slots.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

namespace edgemem::offset_search {

namespace {

constexpr std::int32_t kNoPiece = -1;
constexpr int kBits = 3;  // eight classes of sizes an octave, so that a slot is at most an eighth too large
constexpr std::size_t kClasses = 64U << kBits;
constexpr std::size_t kReach = std::size_t{2} << kBits;  // classes above its own in which a piece looks for a slot

// How many bits are not significant.
int low_bits(std::uint64_t size) { return std::max(0, static_cast<int>(std::bit_width(size)) - kBits - 1); }

// Rounded up to the next number of kBits + 1 significant bits.
std::int64_t rounded(std::int64_t size) {
  const int low = low_bits(static_cast<std::uint64_t>(size));
  return (((size - 1) >> low) + 1) << low;
}

std::size_t class_of(std::int64_t rounded_size) {
  const auto size = static_cast<std::uint64_t>(rounded_size);
  const auto low = static_cast<std::size_t>(low_bits(size));
  return (low << kBits) + static_cast<std::size_t>(size >> low);
}

}  // namespace

std::vector<std::int64_t> reuse_slots(const Part& part, Budget& budget) {
  const auto count = static_cast<std::size_t>(part.count());
  const auto sections = static_cast<std::size_t>(part.sections());
  std::vector<std::int64_t> offsets(count);
  std::exclusive_scan(part.size.begin(), part.size.end(), offsets.begin(), std::int64_t{0});
  // An eighth more for every slot must not leave int64.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / part.unit / 8 * 7;
  if (offsets.back() + part.size.back() > most) return offsets;
  std::vector<std::int32_t> last_ending(sections + 1, kNoPiece);  // a list of the pieces with each end
  std::vector<std::int32_t> ending_before(count);
  for (std::size_t i = 0; i < count; ++i) {
    budget.pass();
    std::int32_t& last = last_ending[static_cast<std::size_t>(part.end[i])];
    ending_before[i] = last;
    last = static_cast<std::int32_t>(i);
  }
  std::vector<std::vector<std::int64_t>> free(kClasses + kReach);  // offsets of slots
  std::vector<std::uint16_t> slot_class(count);
  std::int64_t top = 0;
  for (std::size_t t = 0; t < sections; ++t) {
    for (std::int32_t i = last_ending[t]; i != kNoPiece; i = ending_before[static_cast<std::size_t>(i)]) {
      const auto back = static_cast<std::size_t>(i);
      free[slot_class[back]].push_back(offsets[back]);
    }
    for (auto i = static_cast<std::size_t>(part.first[t]); i < static_cast<std::size_t>(part.first[t + 1]); ++i) {
      budget.pass();
      const std::int64_t size = rounded(part.size[i]);
      const std::size_t own = class_of(size);
      std::size_t found = own;
      while (found < own + kReach && free[found].empty()) ++found;
      if (free[found].empty()) {
        slot_class[i] = static_cast<std::uint16_t>(own);
        offsets[i] = top;
        top += size;
      } else {
        slot_class[i] = static_cast<std::uint16_t>(found);
        offsets[i] = free[found].back();
        free[found].pop_back();
      }
    }
  }
  return offsets;
}

}  // namespace edgemem::offset_search
