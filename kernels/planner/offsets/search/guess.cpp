#include "planner/offsets/search/guess.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace edgemem::offset_search {

namespace {

constexpr std::int64_t kLeastGuessNodes = 20'000;  // of one search
constexpr std::int64_t kNodesAPiece = 4;
constexpr std::size_t kConfidentOf = 8;  // boundaries, of which at most one is unexplained
constexpr std::int64_t kLongEvery = 6;   // of so many searches the last has kLong times the nodes
constexpr std::int64_t kLong = 4;
constexpr std::int64_t kPlainGuesses = 2;     // whose weights carry no noise
constexpr std::int64_t kSearchesPerRule = 2;  // then learning from failures changes: off, on, off, ..

}  // namespace

GuessSearch::GuessSearch(const Records& records, const Part& part, std::int64_t goal, std::int64_t size,
                         std::uint64_t seed, Budget& budget, const Techniques& techniques)
    : fine_(split_finely(records, part, budget)), coarse_(part.record.size()), random_(seed), offsets_(coarse_.size()) {
  std::vector<std::pair<std::size_t, std::size_t>> where;
  for (std::size_t i = 0; i < part.record.size(); ++i) where.emplace_back(part.record[i], i);
  budget.sort(where.begin(), where.end(), std::less<>());
  for (std::size_t i = 0; i < coarse_.size(); ++i) {
    coarse_[i] = std::lower_bound(where.begin(), where.end(), std::pair(fine_.record[i], std::size_t{0}))->second;
  }
  weight_.resize(coarse_.size());
  Ceiling ceiling(fine_, goal);
  if (auto holes = find_holes(fine_, ceiling, budget)) guesses_.emplace_back(fine_, std::move(*holes), techniques);
  const std::int64_t missing = missing_room(fine_, ceiling);
  ceiling.units += missing;
  if (missing == 0 || ceiling.units * fine_.unit >= size) return;
  if (auto holes = find_holes(fine_, ceiling, budget)) guesses_.emplace_front(fine_, std::move(*holes), techniques);
}

bool GuessSearch::is_open(const Guess& guess, std::int64_t size) const {
  return !guess.is_done && (guess.holes.ceiling.units - 1) * fine_.unit + guess.holes.ceiling.tail < size;
}

bool GuessSearch::is_exhausted(std::int64_t size) const {
  return std::none_of(guesses_.begin(), guesses_.end(), [&](const Guess& g) { return is_open(g, size); });
}

bool GuessSearch::is_confident() const {
  return std::any_of(guesses_.begin(), guesses_.end(), [](const Guess& g) {
    return kConfidentOf * static_cast<std::size_t>(g.holes.unexplained) < g.holes.boundary.size();
  });
}

// Long lives first.
void GuessSearch::draw_weights(std::int64_t turn) {
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    weight_[i] = static_cast<double>(fine_.life[i]);
    if (turn < kPlainGuesses) continue;
    // A factor from 0.05 to 1.95, by integers, so that every machine has the same.
    weight_[i] *= static_cast<double>(50 + static_cast<std::int64_t>(random_() % 1901)) / 1000.0;
  }
}

bool GuessSearch::search_once(std::int64_t size, Budget& budget) {
  Guess* next = nullptr;  // the least tried
  for (Guess& guess : guesses_) {
    if (is_open(guess, size) && (next == nullptr || guess.searches < next->searches)) next = &guess;
  }
  if (next == nullptr) return false;
  draw_weights(next->searches);
  PlateauSearch::Ordering ordering;
  ordering.learn_from_failures = next->searches / kSearchesPerRule % 2 == 1;
  const std::int64_t nodes = std::max(kLeastGuessNodes, kNodesAPiece * fine_.count());
  const bool is_long = next->searches % kLongEvery == kLongEvery - 1;
  const PlateauSearch::Limits limits{is_long ? kLong * nodes : nodes};
  const Outcome outcome = next->search.run(next->holes.ceiling, weight_, ordering, limits, budget);
  ++next->searches;
  next->is_done = outcome != Outcome::kLimit;
  if (outcome != Outcome::kFound) return false;
  for (std::size_t i = 0; i < coarse_.size(); ++i) offsets_[coarse_[i]] = next->search.offsets()[i];
  return true;
}

}  // namespace edgemem::offset_search
