// Savings from above: a plan's boxes made smaller, while all pieces still fit.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "planner/object_fitting.h"
#include "planner/object_pieces.h"
#include "planner/object_plan.h"
#include "planner/search_budget.h"

namespace edgemem::objects {

class Savings {
 public:
  Savings(const Pieces& pieces, search::Budget& budget, std::uint64_t seed);

  // Tries one change: first each side of each box one size down, then at random a box smaller or gone and maybe another
  // one larger by less. Whether the plan became smaller.
  bool step(Plan& plan);

 private:
  // Sets a side so many sizes lower (higher); false if there are not so many.
  bool lower(Box& box, std::size_t side, std::size_t by) const;
  bool raise(Box& box, std::size_t side, std::size_t by) const;
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  const Pieces& pieces_;
  search::Budget& budget_;
  Fitting fitting_;
  std::vector<std::int32_t> all_;
  std::array<std::vector<std::int64_t>, 3> sizes_;  // of each side, ascending
  std::vector<std::size_t> sides_;                  // those with more than one size
  std::mt19937_64 random_;
  std::size_t next_ = 0;  // of the changes tried in turn
};

}  // namespace edgemem::objects
