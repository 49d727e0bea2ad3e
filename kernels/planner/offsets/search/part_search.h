// The search of one part: the best placement so far, the best bound so far, and turns that improve either.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "planner/common/budget.h"
#include "planner/offsets/search/gaps.h"
#include "planner/offsets/search/guess.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau.h"
#include "planner/offsets/search/skyline.h"
#include "planner/offsets/search/techniques.h"

namespace edgemem::offset_search {

class PartSearch {
 public:
  // `part` came from `records`; both must outlive this. `thread`: from 0; threads start at different turns of the
  // schedules, so that they do different work.
  PartSearch(const Records& records, const Part& part, std::uint64_t seed, int thread = 0,
             const Techniques& techniques = {});

  // Makes a first placement by a few greedy passes; without time for one, all pieces lie end to end.
  void start(std::int64_t goal, Budget& budget);
  // Takes one turn of every technique, for a placement of at most `goal` bytes. Returns whether anything was done:
  // false when the techniques that are switched on have nothing left to try.
  bool improve(std::int64_t goal, Budget& budget);

  std::int64_t size() const { return size_; }                            // bytes, of the best placement
  std::int64_t bound() const { return bound_; }                          // bytes; no placement needs less
  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units, of the best placement

 private:
  void place_greedily(std::int64_t goal, Budget& budget);
  void search_below(std::int64_t goal, Budget& budget);
  void search_guessed_holes(std::int64_t goal, std::int64_t steps, Budget& budget);
  void search_with_rising_ceiling(std::int64_t goal, Budget& budget);
  void search_between(std::int64_t goal, Budget& budget);
  void draw_weights(std::int64_t turn);
  void keep(const std::vector<std::int64_t>& offsets);
  std::int64_t next_size(std::int64_t size) const;
  double noise(std::int64_t spread);

  const Records& records_;
  const Part& part_;
  const std::uint64_t seed_;
  const Techniques techniques_;
  Skyline skyline_;
  std::optional<GapFit> gaps_;  // beside the skyline, where anything is pinned
  std::optional<PlateauSearch> plateau_;
  std::optional<GuessSearch> guesses_;
  std::int64_t guessed_goal_ = -1;
  std::int64_t rising_steps_ = 0;  // that the last search with a rising ceiling took
  std::mt19937_64 random_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_;
  std::int64_t bound_;
  // How many of each were done: the turns of their schedules.
  std::int64_t greedy_passes_;
  std::int64_t searches_below_;
  std::int64_t idle_searches_ = 0;  // those below that ended before their first step
  std::int64_t rising_searches_;
  double node_limit_;
  std::vector<double> weight_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> rank_;
};

}  // namespace edgemem::offset_search
