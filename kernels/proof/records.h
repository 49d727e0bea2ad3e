// What the proof is about: usage records, what is related among them, and where a plan puts them. Nothing here, nor in
// any other file of this folder, comes from the planner: a mistake there must not be able to hide itself here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace edgemem::proof {

using Value = std::int64_t;
using Column = std::span<const Value>;
using Index = std::uint32_t;

inline constexpr Value kLargest = std::numeric_limits<Value>::max();
inline constexpr Index kNone = std::numeric_limits<Index>::max();

inline void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

// Usage records: `first` and `last` are inclusive operator indices, `size` is bytes. A record of size 0 is nowhere.
//
// Two records that are alive together must not share bytes, but for two relations:
// - overlap (i, j, distance): i dies in the operator that makes j (last[i] == first[j]). The two may also share bytes
//   where offset[i] - offset[j] >= distance.
// - within (i, j, delta): i lies inside j, offset[i] == offset[j] + delta. A record lies inside one other at most; that
//   one may lie inside another in turn. All that are inside one record by such chains are slices and pieces of one
//   value, and may share bytes with it and with each other: at their distances these are the same bytes of that value.
struct Records {
  Column first;
  Column last;
  Column size;
  Value alignment = 1;
  Column pinned{};    // offsets, -1 for a record that is free; empty if all are
  Column reserved{};  // begin and end of each range, by turns
  Column overlap{};   // i, j, distance by turns
  Column within{};    // i, j, delta by turns

  std::size_t count() const { return first.size(); }
  bool is_pinned(std::size_t i) const { return !pinned.empty() && pinned[i] >= 0; }
  // The bytes from one offset to the next possible one behind the record.
  Value padded(std::size_t i) const { return (size[i] + alignment - 1) & -alignment; }
};

struct Overlap {
  Index input;
  Index made;
  Value distance;
};

struct Within {
  Index inner;
  Index outer;
  Value delta;
};

// The rows of a relation; their indices are in range once `check` has passed.
std::vector<Overlap> overlaps(const Records& records);
std::vector<Within> withins(const Records& records);

// Values >= 0 and their records.
using Order = std::vector<std::pair<Value, Index>>;
// The records with a size by the value of `column`, equal ones by index.
Order order_by(Column column, const Records& records);
// Sorts what is in order of its records by value, equal ones by record.
void sort(Order& order);

// Throws std::invalid_argument for columns of different lengths, negative values, an interval that ends before it
// begins, an alignment that is no power of two, sizes that add up to more than int64 holds when padded; for relations
// between records that do not exist, of a record with itself, an overlap of records that do not meet, a record that is
// an input of the operator that makes it, and a record inside two others or inside itself.
void check(const Records& records);

}  // namespace edgemem::proof
