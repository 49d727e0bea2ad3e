// Depth-first search for a placement below a given ceiling, by places that must be filled.
//
// The terms are drawn in search.h. At the left end of a plateau one of two things must happen: a piece that begins
// there and ends within the plateau is placed on it, or the end section is lifted, which wastes some of what the
// section can spare; likewise at its right end. The search branches on the plateau end with the fewest such options. It
// prunes by these rules (those with a name in techniques.h can be switched off):
//  - an end without options fails;
//  - a piece must rest on the top of another, and a lift goes at least to the lowest height at which something could
//    rest there;
//  - a piece has its side of each pin, where the sizes alone decide it (sides_of_pins);
//  - of identical pieces one is tried (skip_identical_pieces);
//  - a state that failed before, by its hash, fails again (remember_failed_states);
//  - what falls apart is searched part by part, and a failure goes back to the last choice that it depends on
//    (jump_back).
//
// A pinned piece is an option where the plateau has the height of its offset; it needs nothing to rest on. Nothing else
// is placed through the lowest pinned piece that is left in a section, and a lift ends there at the latest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/index.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau_options.h"
#include "planner/offsets/search/plateau_state.h"
#include "planner/offsets/search/techniques.h"

namespace edgemem::offset_search {

enum class Outcome { kFound, kNone, kLimit };  // kNone is a proof that there is no placement below the ceiling

class PlateauSearch {
 public:
  // Which ordering rules a run follows, if they are switched on (techniques.h).
  struct Ordering {
    bool learn_from_failures = false;  // divide an end's number of options by how often its section failed
    bool prefer_wall_contact = false;  // prefer what fills the plateau or ends level with a wall
  };
  struct Limits {
    std::int64_t nodes;
    std::int64_t stall = 0;   // nodes without progress after which the ceiling is raised; 0: it never is
    std::int64_t step = 0;    // units, by which it is raised
    std::int64_t raises = 0;  // how often at most
  };

  // `part` and `holes` must outlive this. With `holes`, which must be those of this part, room is wasted only as they
  // say; then nothing is ever proved.
  explicit PlateauSearch(const Part& part, const Techniques& techniques = {}, const Holes* holes = nullptr);
  PlateauSearch(const PlateauSearch&) = delete;
  PlateauSearch& operator=(const PlateauSearch&) = delete;

  // Searches from the start; pieces of greater weight are tried first. What failed in an earlier run of this object is
  // not searched again. Throws OutOfTime when time is up within a step; then this object cannot be used any more.
  Outcome run(const Ceiling& ceiling, std::span<const double> weight, const Ordering& ordering, const Limits& limits,
              Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offset_; }  // units; complete after kFound
  std::int64_t nodes() const { return nodes_; }                         // since construction

 private:
  struct Region {  // sections, half-open
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };
  struct Failed {
    std::uint64_t key = 0;
    Region conflict;
  };
  struct Frame {               // a choice: the options of one plateau end
    std::int32_t begin, end;   // the region that is searched
    std::int32_t line;         // the plateau
    bool right;                // which end
    std::int32_t pending;      // regions to be searched once this one is done: index into pending_, or kNone
    std::size_t option;        // the next one to try, in options_
    std::size_t options_end;   // behind the last one
    std::size_t log_size;      // what to go back to
    std::size_t pending_size;  // what to go back to
    std::uint64_t key;         // of the region
    Region conflict;           // what the failure of its options so far depends on
    Region touched;            // by its present option
  };
  struct Pending {
    std::int32_t begin, end, next;
  };
  enum class Entered { kFrame, kDone, kFailed };

  static constexpr std::int64_t kInfinite = PlateauState::kInfinite;
  static constexpr std::int32_t kNone = PlateauState::kNone;

  // plateau.cpp: choices
  void allocate();
  bool start(std::span<const double> weight);
  Entered enter(std::int32_t begin, std::int32_t end, std::int32_t pending, std::uint64_t key);
  Entered try_option(Frame& frame);
  Entered continue_after_move(const Frame& frame);
  bool go_back(std::size_t top);
  void raise_ceiling(std::int64_t units);
  void update_ceiling_key();
  Failed& failed_at(std::uint64_t key) { return failed_[((key ^ ceiling_key_) >> 20U) & (failed_.size() - 1)]; }
  // plateau_moves.cpp: moves, which return false when they leave a plateau end without options
  bool place(std::int32_t piece, std::int32_t line);
  bool leave_hole(const Option& hole, std::int32_t line);
  bool lift(std::int32_t line, bool right);
  bool stack(std::int32_t section);
  bool raise_range(std::int32_t line, std::int32_t begin, std::int32_t end, std::int64_t to);
  void clear_lifted(std::int32_t begin, std::int32_t end);
  bool rescore(std::int32_t line);
  bool rescore_unless_stacked(std::int32_t line);
  bool fail(std::int32_t section, Region conflict);
  Region with_walls(std::int32_t line) const;

  const Part& part_;
  const Holes* const holes_;
  const Techniques techniques_;
  PlateauState state_;
  PlateauOptions find_options_;
  Ordering ordering_;
  Budget* budget_ = nullptr;       // of the present run
  std::vector<double> failures_;   // [sections] how often each left an end without options
  std::uint64_t ceiling_key_ = 0;  // tells the ceilings apart in `failed_`
  std::size_t raised_frames_ = 0;  // frames that were open when the ceiling was raised
  std::vector<std::int64_t> offset_;
  std::vector<Failed> failed_;  // states without a placement
  std::vector<Frame> frames_;
  std::vector<Option> options_;  // of all frames
  std::vector<Pending> pending_;
  std::vector<std::int32_t> cuts_;  // boundaries that the last move left uncrossed
  std::uint64_t key_ = 0;           // of the region being searched, as the last move changes it
  Region conflict_;                 // what the last failure depends on
  std::int64_t nodes_ = 0;
};

}  // namespace edgemem::offset_search
