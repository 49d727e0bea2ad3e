// The state of a plateau search: the skyline, the pieces that are left, and a log that takes every change back.
//
// The terms are drawn in search.h. A line is named by its first section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/index.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/pin_sides.h"
#include "planner/offsets/search/pins_by_section.h"
#include "planner/offsets/search/techniques.h"

namespace edgemem::offset_search {

// A line and its walls: the height of the line beside it, or kInfinite where no unplaced piece crosses the boundary.
struct Walls {
  std::int32_t begin, end;  // sections, half-open
  std::int64_t base, left, right;
};

class PlateauState {
 public:
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int32_t kNone = -1;

  // `part` and `holes` (if any) must outlive the state.
  PlateauState(const Part& part, const Holes* holes, const Techniques& techniques);
  PlateauState(const PlateauState&) = delete;
  PlateauState& operator=(const PlateauState&) = delete;

  // Takes the memory, which for a million pieces takes a while. Throws OutOfTime.
  void allocate(Budget& budget);
  bool is_allocated() const { return !cells_.empty(); }
  // Nothing is placed, below this ceiling. False if the pins alone rule all placements out. Throws OutOfTime.
  bool reset(const Ceiling& ceiling, Budget& budget);

  // --- the ceiling ---
  const Ceiling& ceiling() const { return ceiling_; }
  void raise_ceiling(std::int64_t units);
  // The units that the section may still waste below the ceiling.
  std::int64_t spare(std::int32_t section) const { return room_[at(section)] - waste_[at(section)]; }
  bool fits_at(std::int32_t piece, std::int64_t offset) const {
    if (has_ranges_ && !ranges_[at(piece)].holds(offset)) return false;
    return offset + part_.size[at(piece)] <= ceiling_.over(part_.tail[at(piece)]);
  }

  // --- the skyline ---
  std::int64_t height(std::int32_t line) const { return height_[at(line)]; }
  std::int32_t line_end(std::int32_t line) const { return static_cast<std::int32_t>(line_end_[at(line)]); }
  // The line that ends with this section.
  std::int32_t line_ending_with(std::int32_t last) const { return static_cast<std::int32_t>(line_begin_[at(last)]); }
  // Whether an unplaced piece crosses the boundary before this section.
  bool is_crossed(std::int32_t boundary) const { return crossing_[at(boundary)] > 0; }
  Walls walls_of(std::int32_t line) const {
    const std::int32_t end = line_end(line);
    return {line, end, height(line), is_crossed(line) ? height(line_ending_with(line - 1)) : kInfinite,
            is_crossed(end) ? height(end) : kInfinite};
  }
  std::int64_t score(std::int32_t line) const { return score_[at(line)]; }
  // The line with the least score in [begin, end), the lowest and then leftmost of equals; kNone if all are infinite.
  std::int32_t best_line(std::int32_t begin, std::int32_t end) const;

  void set_height(std::int32_t line, std::int64_t value) { set(height_[at(line)], value); }
  // kInfinite: there is nothing to branch on.
  void set_score(std::int32_t line, std::int64_t value);
  // Joins a line with neighbours of its height; returns where it begins now.
  std::int32_t merge(std::int32_t line);
  // Cuts a line in two at `begin`, which becomes the second one's name; returns it. No change if the line begins there.
  std::int32_t cut_line(std::int32_t line, std::int32_t begin);
  // One line over all sections, of height 0.
  void start_with_one_line();

  // --- what lifts waste ---
  // Whether the section was lifted and holds nothing at its present height yet.
  bool is_lifted(std::int32_t section) const { return lifted_[at(section)] != 0; }
  void add_waste(std::int32_t section, std::int64_t units) { set(waste_[at(section)], waste_[at(section)] + units); }
  void set_lifted(std::int32_t section, bool lifted) { set(lifted_[at(section)], lifted ? 1 : 0); }
  // The units that guessed holes still have to waste from boundary number i (holes.h) to the group's next.
  std::int64_t hole_room(std::int32_t i) const { return hole_room_[at(i)]; }
  void use_hole_room(std::int32_t i, std::int64_t units) { set(hole_room_[at(i)], hole_room_[at(i)] - units); }

  // --- pieces ---
  // Unplaced pieces as a list; taking the piece at hand from it is allowed.
  class PieceList {
   public:
    class Iterator {
     public:
      Iterator(const std::int32_t* next, std::int32_t piece) : next_(next), piece_(piece) {}
      std::int32_t operator*() const { return piece_; }
      Iterator& operator++() {
        piece_ = next_[static_cast<std::size_t>(piece_)];
        return *this;
      }
      // The list ends at its head, whose number is behind those of all pieces.
      bool operator!=(std::int32_t heads) const { return piece_ < heads; }

     private:
      const std::int32_t* next_;
      std::int32_t piece_;
    };
    PieceList(const std::vector<std::int32_t>& next, std::int32_t head, std::int32_t heads)
        : next_(next.data()), first_(next[static_cast<std::size_t>(head)]), heads_(heads) {}
    Iterator begin() const { return {next_, first_}; }
    std::int32_t end() const { return heads_; }

   private:
    const std::int32_t* next_;
    std::int32_t first_;
    std::int32_t heads_;
  };
  // Those that begin in the section, in the part's order: ascending in their end.
  PieceList beginning_in(std::int32_t section) const { return list(next_begin_, section); }
  // Those that end at the boundary, in the part's order: ascending in their begin. The second goes the other way.
  PieceList ending_at(std::int32_t boundary) const { return list(next_end_, boundary); }
  PieceList ending_at_backwards(std::int32_t boundary) const { return list(prev_end_, boundary); }
  std::int32_t placed() const { return placed_; }
  // Takes a piece from what is left, and appends the boundaries that no unplaced piece crosses any more to `cuts`.
  void take(std::int32_t piece, std::vector<std::int32_t>& cuts);
  // The offset (units) of the lowest unplaced pinned piece in the section, or kInfinite. Nothing else is placed through
  // it, and a lift goes no higher. Pins from the ceiling upwards are reserved ranges and concern nothing.
  std::int64_t next_pin(std::int32_t section) const {
    if (!has_pins_) return kInfinite;
    const std::int64_t offset = pins_.offset(section, pins_placed_[at(section)]);
    return offset >= ceiling_.units ? kInfinite : offset;
  }
  void count_placed_pin(std::int32_t section) { set(pins_placed_[at(section)], pins_placed_[at(section)] + 1); }
  // Whether nothing is to choose in a section whose boundaries are not crossed: all that is left is free and can be
  // stacked in any order, or all of it is pinned.
  bool needs_no_choice(std::int32_t section) const;

  // --- keys: hashes by which failed states are known ---
  std::uint64_t piece_key(std::int32_t piece) const { return piece_key_[at(piece)]; }
  std::uint64_t waste_key(std::int32_t section) const;
  std::uint64_t hole_key(std::int32_t i) const;
  // Of what is left to place and what is wasted in these sections: the sum of the keys above.
  std::uint64_t key_of(std::int32_t begin, std::int32_t end) const;

  // --- the log ---
  std::size_t log_size() const { return log_.size(); }
  // Takes back all changes since the log had this size. Throws OutOfTime.
  void undo(std::size_t log_size, Budget& budget);

 private:
  using Cells = std::span<std::int64_t>;
  struct Change {
    std::int32_t cell;  // index in cells_, whose old value follows; or ~piece, a piece that was taken
    std::int64_t value;
  };

  PieceList list(const std::vector<std::int32_t>& next, std::int32_t head) const {
    return {next, part_.count() + head, part_.count()};
  }
  void set(std::int64_t& cell, std::int64_t value) {
    if (cell == value) return;
    log_.push_back({static_cast<std::int32_t>(&cell - cells_.data()), cell});
    cell = value;
  }
  bool comes_first(std::int32_t a, std::int32_t b) const;
  void update_winner(std::int32_t line);
  void unlink(std::int32_t piece);
  void link(std::int32_t piece);
  void link_all();

  const Part& part_;
  const Holes* const holes_;
  const bool has_pins_;
  const Techniques techniques_;
  const std::size_t sections_;
  Ceiling ceiling_;
  std::vector<std::int64_t> room_;  // [sections] units that each may waste below the ceiling

  // Every cell that changes lies in one array, so that one log undoes all changes. The columns are parts of it; height
  // and score come first, because undo keeps the tournament of lines in step with them.
  std::vector<std::int64_t> cells_;
  Cells height_;       // [sections] units, of the line that begins there
  Cells score_;        // [sections] of the line that begins there
  Cells line_end_;     // [sections] of the line that begins there
  Cells line_begin_;   // [sections] of the line that ends with the section
  Cells waste_;        // [sections] units wasted by lifts
  Cells lifted_;       // [sections] 0 or 1
  Cells pins_placed_;  // [sections] pinned pieces placed there; empty without pins
  Cells hole_room_;    // [boundaries of the holes] units; empty without holes
  std::vector<Change> log_;

  std::vector<std::int32_t> crossing_;                 // [sections + 1] unplaced pieces across each boundary
  std::vector<std::int32_t> next_begin_, prev_begin_;  // unplaced pieces by first section; heads behind the pieces
  std::vector<std::int32_t> next_end_, prev_end_;      // unplaced pieces by end
  std::int32_t placed_ = 0;
  PinsBySection pins_;
  std::vector<OffsetRange> ranges_;  // [pieces] below the ceiling `ranged_`
  Ceiling ranged_;
  bool has_ranges_ = false;               // for the present ceiling
  std::vector<std::uint64_t> piece_key_;  // equal for identical pieces
  std::vector<std::int32_t> winner_;      // a tournament of the lines: a heap, the leaf of line l is leaves_ + l
  std::size_t leaves_ = 1;
};

}  // namespace edgemem::offset_search
