// Searches for a placement whose holes were guessed (holes.h).
#pragma once

#include <cstdint>
#include <list>
#include <random>
#include <vector>

#include "planner/common/budget.h"
#include "planner/common/records.h"
#include "planner/offsets/search/holes.h"
#include "planner/offsets/search/part.h"
#include "planner/offsets/search/plateau.h"

namespace edgemem::offset_search {

class GuessSearch {
 public:
  // For placements of at most `goal` bytes, or as little above it as the holes ask for, but below `size` bytes.
  // `part` came from `records`; both must outlive this.
  GuessSearch(const Records& records, const Part& part, std::int64_t goal, std::int64_t size, std::uint64_t seed,
              Budget& budget);

  // Nothing is left to be tried for a placement below `size` bytes.
  bool exhausted(std::int64_t size) const;
  // Small groups explain nearly all changes of the load.
  bool confident() const;
  // One search; true if it found a placement.
  bool aim(std::int64_t size, Budget& budget);

  const std::vector<std::int64_t>& offsets() const { return offsets_; }  // units, of `part`

 private:
  struct Guess {
    Guess(const Part& part, Holes found) : holes(std::move(found)), search(part, &holes) {}
    Holes holes;
    PlateauSearch search;
    std::int64_t aims = 0;
    bool done = false;
  };

  bool open(const Guess& guess, std::int64_t size) const;
  void weigh(std::int64_t turn);

  Part fine_;                        // the same pieces, in sections between any two changes
  std::vector<std::size_t> coarse_;  // [pieces] their indices in `part`
  std::list<Guess> guesses_;
  std::mt19937_64 random_;
  std::vector<double> weight_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace edgemem::offset_search
