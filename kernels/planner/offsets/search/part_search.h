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

namespace edgemem::offset_search {

class PartSearch {
 public:
  // `part` came from `records`; both must outlive the part. Searches side by side begin at different places of the
  // turns, from 0.
  PartSearch(const Records& records, const Part& part, std::uint64_t seed, std::int64_t place = 0);

  // A first placement, by a few passes of the skyline; without time for one, all pieces end to end.
  void start(std::int64_t goal, Budget& budget);
  // One turn of every kind of search, for a placement of at most `goal` bytes.
  void improve(std::int64_t goal, Budget& budget);

  std::int64_t size() const { return size_; }                            // bytes, of the best placement
  std::int64_t bound() const { return bound_; }                          // bytes; no placement needs less
  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units, of the best placement

 private:
  void pass(std::int64_t goal, Budget& budget);
  void aim(std::int64_t goal, Budget& budget);
  void guess(std::int64_t goal, std::int64_t steps, Budget& budget);
  void creep(std::int64_t goal, Budget& budget);
  void aim_between(std::int64_t goal, Budget& budget);
  void weigh(std::int64_t turn);
  static PlateauSearch::Style style(std::int64_t turn);
  void keep(const std::vector<std::int64_t>& offsets);
  std::int64_t next_size(std::int64_t size) const;
  double noise(std::int64_t spread);

  const Records& records_;
  const Part& part_;
  const std::uint64_t seed_;
  Skyline skyline_;
  std::optional<GapFit> gaps_;  // instead of the skyline, where anything is pinned
  std::optional<PlateauSearch> plateau_;
  std::optional<GuessSearch> guesses_;
  std::int64_t guessed_goal_ = -1;
  std::int64_t creep_steps_ = 0;  // of the last turn
  std::mt19937_64 random_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_;
  std::int64_t bound_;
  std::int64_t passes_ = 0;
  std::int64_t aims_ = 0;
  std::int64_t creeps_ = 0;
  double node_limit_;
  std::vector<double> weight_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> rank_;
};

}  // namespace edgemem::offset_search
