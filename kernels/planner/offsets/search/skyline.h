// Places pieces greedily on the skyline: fills or lifts the lowest line until all pieces are placed, or until a section
// cannot stay below the ceiling any more. A pinned piece is placed once a line has the height of its offset; until then
// nothing is placed through it, and no line is lifted above its offset.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/pins_by_section.h"

namespace edgemem::offset_search {

class Skyline {
 public:
  explicit Skyline(const Part& part);

  // Places the pieces below the ceiling; of those that fit on the lowest line (leftmost of equals) the one with the
  // least rank, a permutation of 0 to n - 1. False when a section would end above the ceiling or time is up; the work
  // limit does not end a pass.
  bool run(std::span<const std::int32_t> rank, Ceiling ceiling, Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  // The least rank and the least end among eight nodes below, or eight pieces.
  struct Node {
    std::int32_t rank;
    std::int32_t end;
  };
  using Line = std::pair<std::int64_t, std::int32_t>;  // height and first section

  // The lowest offset of an unplaced pin in these sections.
  std::int64_t lowest_pin(std::int32_t begin, std::int32_t end) const;
  // The pinned piece that has to be placed on the line now; kNoLine if there is none.
  std::int32_t pin_on(std::int32_t line) const;
  // The least rank of the pieces that fit on the line.
  std::int32_t best_on(std::int32_t line) const;
  void consider(std::size_t piece, std::int32_t line, std::int32_t& best) const;
  void descend(std::size_t level, std::size_t node, std::size_t from, std::size_t to, std::int32_t line,
               std::int32_t& best) const;
  void remove(std::int32_t piece);
  void push(std::int64_t height, std::int32_t begin);
  std::int32_t lowest();
  bool lift(std::int32_t begin);
  void place(std::int32_t piece, std::int32_t begin);
  void merge(std::int32_t begin);

  const Part& part_;
  std::vector<std::vector<Node>> levels_;  // levels_[0] are the pieces
  std::vector<std::int32_t> piece_of_rank_;
  std::vector<std::int64_t> offsets_;  // -1: not placed
  std::vector<std::int64_t> height_;   // of the line that begins there
  std::vector<std::int32_t> end_;      // of the line that begins there
  std::vector<std::int32_t> begin_;    // of the line whose last section this is
  std::vector<std::int64_t> spare_;    // units that may stay empty below the ceiling
  PinsBySection pins_;
  std::vector<std::int64_t> next_pin_;  // of each section: its lowest unplaced pin, by number; empty without pins
  std::vector<Line> queue_;             // a heap with entries that are out of date
  Ceiling ceiling_;
};

}  // namespace edgemem::offset_search
