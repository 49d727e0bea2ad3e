#include "planner/offsets/related/relations.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace edgemem::related {
namespace {

constexpr Value kFarthest = Value{1} << 61;  // of a distance, which adds up with offsets

void check_rows(const Records& records, Column rows) {
  if (rows.size() % 3 != 0) throw std::invalid_argument("a relation has three numbers a row");
  const Value count = static_cast<Value>(records.count());
  for (std::size_t k = 0; k < rows.size(); k += 3) {
    if (rows[k] < 0 || rows[k] >= count || rows[k + 1] < 0 || rows[k + 1] >= count) {
      throw std::invalid_argument("a relation names a record that does not exist");
    }
    if (rows[k] == rows[k + 1]) throw std::invalid_argument("a record is related to itself");
    if (rows[k + 2] > kFarthest || rows[k + 2] < -kFarthest) throw std::invalid_argument("a distance leaves int64");
  }
}

void check_pins(const Records& records) {
  constexpr Value kMax = std::numeric_limits<Value>::max();
  if (!records.pinned.empty() && records.pinned.size() != records.count()) {
    throw std::invalid_argument("pinned differs in length from the records");
  }
  for (std::size_t i = 0; i < records.pinned.size(); ++i) {
    if (records.pinned[i] < -1) throw std::invalid_argument("a pinned record has a negative offset");
    if (!records.is_pinned(i)) continue;
    if ((records.pinned[i] & (records.alignment - 1)) != 0)
      throw std::invalid_argument("a pinned record is not aligned");
    if (records.pinned[i] > kMax / 2 - records.padded(i)) throw std::invalid_argument("a pinned record leaves int64");
  }
}

void check_overlap(const Records& records, Column overlap) {
  std::vector<bool> is_input(records.count(), false);
  for (std::size_t k = 0; k < overlap.size(); k += 3) {
    const auto input = static_cast<std::size_t>(overlap[k]);
    if (records.last[input] != records.first[static_cast<std::size_t>(overlap[k + 1])]) {
      throw std::invalid_argument("an overlap of records that do not meet in one operator");
    }
    is_input[input] = true;
  }
  for (std::size_t k = 0; k < overlap.size(); k += 3) {
    const auto made = static_cast<std::size_t>(overlap[k + 1]);
    if (is_input[made] && records.first[made] == records.last[made]) {
      throw std::invalid_argument("a record is an input of the operator that makes it");
    }
  }
}

void check_within(const Records& records, Column within) {
  std::vector<std::size_t> outer_of(records.count(), records.count());  // count: none
  for (std::size_t k = 0; k < within.size(); k += 3) {
    const auto inner = static_cast<std::size_t>(within[k]);
    const auto outer = static_cast<std::size_t>(within[k + 1]);
    if (outer_of[inner] < records.count()) throw std::invalid_argument("a record lies inside two others");
    outer_of[inner] = outer;
    if (within[k + 2] < 0 || (within[k + 2] & (records.alignment - 1)) != 0) {
      throw std::invalid_argument("a record lies inside another at a distance that is negative or not aligned");
    }
    if (records.size[inner] > records.size[outer] || within[k + 2] > records.size[outer] - records.size[inner]) {
      throw std::invalid_argument("a record does not fit inside its container");
    }
  }
  // Every chain ends in a record that lies in none. Those on a chain that was followed before need no second look.
  std::vector<std::size_t> seen_from(records.count(), records.count());
  for (std::size_t i = 0; i < records.count(); ++i) {
    for (std::size_t at = i; outer_of[at] < records.count(); at = outer_of[at]) {
      if (seen_from[at] == i) throw std::invalid_argument("a record lies inside itself");
      if (seen_from[at] < records.count()) break;
      seen_from[at] = i;
    }
  }
}

}  // namespace

std::vector<Overlap> overlaps(const Records& records, const Relations& relations) {
  std::vector<Overlap> rows;
  const Value step = records.alignment;
  for (std::size_t k = 0; k < relations.overlap.size(); k += 3) {
    const auto input = static_cast<Index>(relations.overlap[k]);
    const auto made = static_cast<Index>(relations.overlap[k + 1]);
    if (records.size[input] == 0 || records.size[made] == 0) continue;
    const Value distance = (relations.overlap[k + 2] + (step - 1)) & -step;
    rows.push_back({input, made, distance / step});
  }
  std::sort(rows.begin(), rows.end(), [](const Overlap& a, const Overlap& b) {
    return std::tie(a.made, a.input, a.distance) < std::tie(b.made, b.input, b.distance);
  });
  return rows;
}

void check(const Records& records, const Relations& relations) {
  edgemem::check(Records{records.first, records.last, records.size, records.alignment, {}, records.reserved});
  check_pins(records);
  check_rows(records, relations.overlap);
  check_rows(records, relations.within);
  check_overlap(records, relations.overlap);
  check_within(records, relations.within);
  if (!relations.roles.empty() && relations.roles.size() != records.count()) {
    throw std::invalid_argument("roles differ in length from the records");
  }
}

}  // namespace edgemem::related
