// Depth-first search for a placement below a given ceiling, by places that must be filled.
//
// The state is a skyline. A plateau is a maximal run of sections of equal height between higher walls; a wall is also
// where no unplaced piece crosses. At its left end one of two things must happen: a piece that begins there and ends
// within the plateau is placed on it, or the end section is lifted, which wastes some of what the section can spare;
// likewise at its right end. The search branches on the plateau end with the fewest such options. It prunes by: an end
// without options; a piece must rest on the top of another; a lift goes at least to the lowest height at which
// something could rest there; of identical pieces one is tried; a state that failed before, by its hash, fails again;
// what falls apart is searched part by part, and a part that fails fails the choice that made it.
//
// A pinned piece is an option where the plateau has the height of its offset; it needs nothing to rest on. The lowest
// one that is left in a section is the section's lid: nothing else is placed through it, and a lift ends there at the
// latest. What is beside a plateau may be pinned high above, so that such a lift goes at most to the lowest wall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/splitmix64.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"

namespace edgemem::offset_search {

enum class Outcome { kFound, kNone, kLimit };  // kNone is a proof that there is no placement below the ceiling

class PlateauSearch {
 public:
  struct Style {
    bool learned = false;      // divide an end's number of options by how often its section failed
    bool flush_first = false;  // prefer pieces that fill the plateau or end level with a wall
  };
  struct Limits {
    std::int64_t nodes;
    std::int64_t stall = 0;   // nodes without progress after which the ceiling is raised; 0: it never is
    std::int64_t step = 0;    // units, by which it is raised
    std::int64_t raises = 0;  // how often at most
  };

  // With `holes`, which must be those of these pieces and outlive this, room is only wasted as they say; then nothing
  // is ever proved.
  explicit PlateauSearch(const Part& part, const Holes* holes = nullptr);

  // From the start, with pieces of greater weight tried first. What failed before in this object is not searched again.
  // Throws OutOfTime when time is up within a step; then this object cannot be used any more.
  Outcome run(Ceiling ceiling, std::span<const double> weight, const Style& style, const Limits& limits,
              Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offset_; }  // units; complete after kFound
  std::int64_t nodes() const { return nodes_; }                         // since construction

 private:
  struct Region {
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };
  struct Walls {  // of a plateau: where it begins and ends, how high it and the lines beside it are
    std::int32_t begin, end;
    std::int64_t base, left, right;
  };
  struct Option {  // a piece, kLift or kHole; only a hole has the rest
    std::int32_t piece;
    std::int32_t from, to;  // its boundaries, as indices into the holes' columns
    std::int64_t size;
  };
  struct Failed {
    std::uint64_t key = 0;
    Region conflict;
  };
  struct Frame {              // a choice: the options of one plateau end
    std::int32_t begin, end;  // the part of time it belongs to
    std::int32_t line;        // first section of the plateau
    bool right;               // which end
    std::int32_t rest;        // other parts, to be searched once this one is done (index into rests_)
    std::size_t option, options_end;
    std::size_t mark, rests_mark;  // what to go back to
    std::uint64_t key;
    Region conflict;  // what the failure of its options so far depends on
    Region touched;   // by its present option
  };
  struct Rest {
    std::int32_t begin, end, next;
  };
  struct Change {  // slot >= 0: a cell's old value; otherwise ~slot was placed
    std::int32_t slot;
    std::int64_t value;
  };
  enum class Entered { kFrame, kDone, kFailed };

  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int32_t kLift = -1;  // options that are no piece
  static constexpr std::int32_t kHole = -2;
  static constexpr std::int32_t kNone = -1;

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  // The cells, all in one array so that one log undoes them.
  std::int64_t& height(std::int32_t line) { return cells_[static_cast<std::size_t>(line)]; }
  std::int64_t& line_end(std::int32_t line) { return cells_[sections_ + static_cast<std::size_t>(line)]; }
  std::int64_t& line_begin(std::int32_t last) { return cells_[2 * sections_ + static_cast<std::size_t>(last)]; }
  std::int64_t& waste(std::int32_t t) { return cells_[3 * sections_ + static_cast<std::size_t>(t)]; }
  std::int64_t& lifted(std::int32_t t) { return cells_[4 * sections_ + static_cast<std::size_t>(t)]; }
  std::int64_t& score(std::int32_t line) { return cells_[5 * sections_ + static_cast<std::size_t>(line)]; }
  std::int64_t spare(std::int32_t t) { return room_[static_cast<std::size_t>(t)] - waste(t); }
  // How many pinned pieces were placed there. No holes are guessed where pieces are pinned: the cells are the same.
  std::int64_t& pins_placed(std::int32_t t) { return cells_[6 * sections_ + static_cast<std::size_t>(t)]; }
  std::int64_t& hole_room(std::int32_t i) { return cells_[6 * sections_ + static_cast<std::size_t>(i)]; }
  void set(std::int64_t& cell, std::int64_t value);
  void set_score(std::int32_t line, std::int64_t value);
  void rise(std::int32_t leaf);
  bool better(std::int32_t a, std::int32_t b) const;
  std::int32_t best_line(std::int32_t begin, std::int32_t end) const;
  void undo(std::size_t mark);

  bool crossed(std::int32_t boundary) const { return crossing_[static_cast<std::size_t>(boundary)] > 0; }
  void prepare();
  void reset(std::span<const double> weight);
  void unlink(std::int32_t piece);
  void link(std::int32_t piece);
  bool rescore(std::int32_t line);
  void prepare_pins();
  bool within_reach();
  std::int64_t lid(std::int32_t t);
  bool settled(std::int32_t section);
  std::int64_t next_height_pinned(std::int32_t line, bool right);
  template <typename Visit>
  void visit_under_lids(std::int32_t line, bool right, const Visit& visit);
  template <typename Visit>
  void visit_pieces(std::int32_t line, bool right, const Visit& visit);
  template <typename Visit>
  void visit_holes(const Walls& walls, bool right, const Visit& visit);
  std::int64_t options_at(std::int32_t line, bool right);
  void list_options(std::int32_t line, bool right);
  Walls walls_of(std::int32_t line);
  int flush(std::int32_t begin, std::int32_t end, std::int64_t size, const Walls& walls) const;
  int flush(const Option& option, const Walls& walls) const;
  std::int64_t next_height(std::int32_t line, bool right);
  std::int64_t lift_to(std::int32_t line, bool right);
  std::int32_t merge(std::int32_t line);
  std::int32_t cut_line(std::int32_t line, std::int32_t begin);
  bool place(std::int32_t piece, std::int32_t line);
  bool waste_hole(const Option& hole, std::int32_t line);
  bool raise_range(std::int32_t line, std::int32_t begin, std::int32_t end, std::int64_t to);
  void support(std::int32_t begin, std::int32_t end);
  bool lift(std::int32_t line, bool right);
  bool stack(std::int32_t section);
  std::uint64_t lift_key(std::int32_t t);
  std::uint64_t hole_key(std::int32_t i);
  std::uint64_t key_of(std::int32_t begin, std::int32_t end);
  Entered enter(std::int32_t begin, std::int32_t end, std::int32_t rest, std::uint64_t key);
  Entered follow(const Frame& frame);
  bool jump(std::size_t top);
  void raise(std::int64_t units);
  void salt();
  bool fail(std::int32_t section, Region conflict);
  Region around(std::int32_t line);
  Failed& failed_at(std::uint64_t key) { return failed_[((key ^ salt_) >> 20U) & (failed_.size() - 1)]; }

  const Part& part_;
  const Holes* const holes_;
  const std::size_t sections_;
  const bool pinned_;         // any of the pieces
  Budget* budget_ = nullptr;  // of the present run
  std::vector<std::int64_t> cells_;
  std::vector<Change> log_;
  std::vector<std::int32_t> crossing_;                 // [sections + 1] unplaced pieces across each boundary
  std::vector<std::int32_t> next_begin_, prev_begin_;  // unplaced pieces by first section; heads behind the pieces
  std::vector<std::int32_t> next_end_, prev_end_;      // unplaced pieces by end
  std::vector<std::int32_t> winner_;                   // a tournament of the lines' scores
  std::size_t leaves_ = 1;
  std::vector<std::uint64_t> name_;  // random, equal for identical pieces
  std::vector<double> weight_;
  std::vector<double> failures_;
  Ceiling ceiling_;
  Style style_;
  std::vector<std::int64_t> room_;       // units that each section may waste below the ceiling
  std::uint64_t salt_ = 0;               // tells the ceilings apart in `failed_`
  int flush_ = 0;                        // of the best option that was counted last
  std::size_t raised_frames_ = 0;        // frames that were open when the ceiling was raised
  std::vector<std::size_t> pins_begin_;  // [sections + 1] into pins_
  std::vector<std::int32_t> pins_;       // the pinned pieces of each section, ascending by offset
  std::vector<std::int64_t> offset_;
  std::vector<Failed> failed_;  // states without a placement
  std::vector<Frame> frames_;
  std::vector<Option> options_;
  std::vector<Rest> rests_;
  std::vector<std::int32_t> cuts_;  // boundaries that the last placement left uncrossed
  std::uint64_t key_ = 0;           // of the part being searched, as the last move changes it
  Region conflict_;                 // what the last failure depends on
  std::int32_t placed_ = 0;
  std::int64_t nodes_ = 0;
};

}  // namespace edgemem::offset_search
