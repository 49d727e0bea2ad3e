// Searches for a placement whose holes were guessed (holes.h).
#pragma once

#include <cstdint>
#include <list>
#include <random>
#include <utility>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/records.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau.h"
#include "planner/offsets/search/techniques.h"

namespace edgemem::offset_search {

class GuessSearch {
 public:
  // For placements of at most `goal` bytes, or as little above it as the holes ask for, but below `size` bytes.
  // `part` came from `records`; both must outlive this. Throws OutOfTime.
  GuessSearch(const Records& records, const Part& part, std::int64_t goal, std::int64_t size, std::uint64_t seed,
              Budget& budget, const Techniques& techniques = {});

  // Whether nothing is left to be tried for a placement below `size` bytes.
  bool is_exhausted(std::int64_t size) const;
  // Whether small groups explain nearly all changes of the load.
  bool is_confident() const;
  // Runs one search for a placement below `size` bytes; returns whether it found one. Throws OutOfTime.
  bool search_once(std::int64_t size, Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units, of `part`

 private:
  struct Guess {
    Guess(const Part& part, Holes found, const Techniques& techniques)
        : holes(std::move(found)), search(part, techniques, &holes) {}
    Holes holes;
    PlateauSearch search;
    std::int64_t searches = 0;
    bool is_done = false;
  };

  bool is_open(const Guess& guess, std::int64_t size) const;
  void draw_weights(std::int64_t turn);

  Part fine_;                        // the same pieces, in sections between any two changes
  std::vector<std::size_t> coarse_;  // [pieces] their indices in `part`
  std::list<Guess> guesses_;
  std::mt19937_64 random_;
  std::vector<double> weight_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace edgemem::offset_search
