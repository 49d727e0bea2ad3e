#include "planner/offsets/search/guess.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace edgemem::offset_search {

namespace {

constexpr std::int64_t kLeastNodes = 20'000;  // of one search
constexpr std::int64_t kNodesAPiece = 4;
constexpr std::size_t kSureOf = 8;      // boundaries, of which at most one is unexplained
constexpr std::int64_t kLongEvery = 6;  // so many searches, one has kLong times the nodes
constexpr std::int64_t kLong = 4;
constexpr std::int64_t kPlainAims = 2;  // without noise

}  // namespace

GuessSearch::GuessSearch(const Records& records, const Part& part, std::int64_t goal, std::int64_t size,
                         std::uint64_t seed, Budget& budget)
    : fine_(split_finely(records, part, budget)), coarse_(part.record.size()), random_(seed), offsets_(coarse_.size()) {
  std::vector<std::pair<std::size_t, std::size_t>> where;
  for (std::size_t i = 0; i < part.record.size(); ++i) where.emplace_back(part.record[i], i);
  budget.sort(where.begin(), where.end(), std::less<>());
  for (std::size_t i = 0; i < coarse_.size(); ++i) {
    coarse_[i] = std::lower_bound(where.begin(), where.end(), std::pair(fine_.record[i], std::size_t{0}))->second;
  }
  weight_.resize(coarse_.size());
  Ceiling ceiling(fine_, goal);
  if (auto holes = find_holes(fine_, ceiling, budget)) guesses_.emplace_back(fine_, std::move(*holes));
  const std::int64_t missing = missing_room(fine_, ceiling);
  ceiling.units += missing;
  if (missing == 0 || ceiling.units * fine_.unit >= size) return;
  if (auto holes = find_holes(fine_, ceiling, budget)) guesses_.emplace_front(fine_, std::move(*holes));
}

bool GuessSearch::open(const Guess& guess, std::int64_t size) const {
  return !guess.done && (guess.holes.ceiling.units - 1) * fine_.unit + guess.holes.ceiling.tail < size;
}

bool GuessSearch::exhausted(std::int64_t size) const {
  return std::none_of(guesses_.begin(), guesses_.end(), [&](const Guess& g) { return open(g, size); });
}

bool GuessSearch::confident() const {
  return std::any_of(guesses_.begin(), guesses_.end(), [](const Guess& g) {
    return kSureOf * static_cast<std::size_t>(g.holes.unexplained) < g.holes.boundary.size();
  });
}

// Long lives first.
void GuessSearch::weigh(std::int64_t turn) {
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    weight_[i] = static_cast<double>(fine_.life[i]);
    if (turn < kPlainAims) continue;
    // A factor from 0.05 to 1.95, by integers, so that every machine has the same.
    weight_[i] *= static_cast<double>(50 + static_cast<std::int64_t>(random_() % 1901)) / 1000.0;
  }
}

bool GuessSearch::aim(std::int64_t size, Budget& budget) {
  Guess* next = nullptr;  // the least tried
  for (Guess& guess : guesses_) {
    if (open(guess, size) && (next == nullptr || guess.aims < next->aims)) next = &guess;
  }
  if (next == nullptr) return false;
  weigh(next->aims);
  const PlateauSearch::Style style{next->aims / 2 % 2 == 1, false};
  const std::int64_t nodes = std::max(kLeastNodes, kNodesAPiece * fine_.count());
  const PlateauSearch::Limits limits{next->aims % kLongEvery == kLongEvery - 1 ? kLong * nodes : nodes};
  const Outcome outcome = next->search.run(next->holes.ceiling, weight_, style, limits, budget);
  ++next->aims;
  next->done = outcome != Outcome::kLimit;
  if (outcome != Outcome::kFound) return false;
  for (std::size_t i = 0; i < coarse_.size(); ++i) offsets_[coarse_[i]] = next->search.offsets()[i];
  return true;
}

}  // namespace edgemem::offset_search
