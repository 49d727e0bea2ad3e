// The independent parts of an offset problem, with time cut into the sections that matter.
//
// Two records conflict when they are alive at one operator. Only those operators matter whose
// set of live records is contained in no neighbour's (the maximal cliques of the interval graph): each is a section.
// Where no record is alive in two neighbouring sections, the problem falls into parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/interval_set.h"
#include "planner/common/records.h"

namespace edgemem::offset_search {

// One independent part. A piece is a record that takes space; pieces are sorted by begin, end, size and tail, so that
// identical ones stand together. All sizes and offsets are in `unit` bytes.
//
// A reserved range is a pinned piece in every section, which belongs to no record.
struct Part {
  static constexpr std::size_t kNoRecord = static_cast<std::size_t>(-1);

  std::int64_t unit = 1;  // bytes: the alignment times the common divisor of the padded sizes
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> end;         // sections, half-open
  std::vector<std::int64_t> size;        // units
  std::vector<std::int64_t> tail;        // bytes used of its last unit, 1 to `unit`
  std::vector<std::int64_t> life;        // operators
  std::vector<std::size_t> record;       // whose piece it is, or kNoRecord
  std::vector<std::int32_t> first;       // [sections + 1] the first piece that begins there or later
  std::vector<std::int64_t> load;        // units, of each section
  std::vector<std::int64_t> least_tail;  // bytes, of each section
  std::int64_t bound = 0;                // bytes: what no arena can go below
  std::vector<std::int64_t> pinned;      // units: offsets, -1 for a free piece; empty if all are free
  std::vector<Interval> reserved;        // units, ascending

  std::int32_t count() const { return static_cast<std::int32_t>(begin.size()); }
  std::int32_t sections() const { return static_cast<std::int32_t>(load.size()); }
  bool is_pinned(std::int32_t i) const { return !pinned.empty() && pinned[static_cast<std::size_t>(i)] >= 0; }
  bool identical(std::int32_t a, std::int32_t b) const;
};

// An arena in units: a piece may end at `units`, or one unit lower if it uses more of its last unit than `tail` bytes.
struct Ceiling {
  std::int64_t units = 0;
  std::int64_t tail = 0;

  Ceiling() = default;
  Ceiling(const Part& part, std::int64_t bytes)
      : units((bytes + part.unit - 1) / part.unit), tail(bytes - (units - 1) * part.unit) {}

  std::int64_t over(std::int64_t piece_tail) const { return units - (piece_tail > tail ? 1 : 0); }
};

// Splits checked records into parts, the one with the greatest bound first.
std::vector<Part> split(const Records& records);

// The parts without those of one section in which nothing is pinned or reserved. There may be as many of those as
// records, and they need no search: their records lie end to end, the one with the most padding on top.
struct Split {
  std::vector<Part> parts;
  std::vector<std::int64_t> offsets;  // bytes, of the records that are in no part
  std::int64_t size = 0;              // bytes that those records take; no arena is smaller
};

// Splits checked records, the part with the greatest bound first. Throws OutOfTime when time is up.
Split split(const Records& records, Budget& budget);

// The same part with a section between any two operators at which a record begins or ends. `part` came from
// `records`, and nothing is pinned or reserved in it. Throws OutOfTime when time is up.
Part split_finely(const Records& records, const Part& part, Budget& budget);

// Offsets (units) of all pieces, end to end around all that is pinned or reserved at any time.
std::vector<std::int64_t> end_to_end(const Part& part);

// The arena in bytes that these offsets (units) need.
std::int64_t peak(const Part& part, const std::vector<std::int64_t>& offsets);

}  // namespace edgemem::offset_search
