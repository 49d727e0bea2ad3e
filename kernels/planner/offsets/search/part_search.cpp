#include "planner/offsets/search/part_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "planner/common/index.h"

namespace edgemem::offset_search {

namespace {

// Rules by which a greedy pass orders the pieces, in turns; after one round of them the orders carry noise.
constexpr std::int64_t kGreedyRules = 4;
constexpr std::int64_t kSortedInAStep = 16;

// Rules by which a depth-first search weighs the pieces, in turns. Two more rules alternate: contact with the
// walls is preferred in every other round of them, failures are learned from in every other pair of rounds.
constexpr std::int64_t kWeightRules = 4;
constexpr std::int64_t kPlainSearches = 2 * kWeightRules;  // whose weights carry no noise
constexpr std::int64_t kSearchesPerTurn = 4;
constexpr std::int64_t kLeastNodes = 1000;  // of a search before it starts again
// Searches that end before their first step, because the ceiling alone rules all placements out, cost nothing up to
// this many, and so many steps each from then on: a bound may rise by a byte at a time.
constexpr std::int64_t kIdleSearches = 1000;
constexpr std::int64_t kIdleSteps = 4;
constexpr double kMostNodes = 1e15;  // more than any search can do; searches that end at once raise the limit, too
constexpr double kMoreNodes = 1.3;   // that limit's growth
constexpr std::int64_t kSearchesPerLimit = 16;

PlateauSearch::Ordering ordering_of(std::int64_t turn) {
  const bool contact_round = turn / kWeightRules % 2 == 0;
  const bool learning_round = turn / (2 * kWeightRules) % 2 == 1;
  return {learning_round, contact_round};
}

constexpr std::int64_t kMoreIfConfident = 4;  // steps for guessed holes, where the guess is a good one

// How a ceiling rises, in turns.
constexpr std::int64_t kRisingNodesAPiece = 60;
struct Rising {
  std::int64_t stall;  // nodes without progress that raise the ceiling
  std::int64_t steps;  // in the goal
};
constexpr std::array<Rising, 2> kRisings{{{300, 500}, {1000, 1000}}};

}  // namespace

PartSearch::PartSearch(const Records& records, const Part& part, std::uint64_t seed, int thread,
                       const Techniques& techniques)
    : records_(records),
      part_(part),
      seed_(seed),
      techniques_(techniques),
      skyline_(part),
      random_(seed),
      offsets_(end_to_end(part)),
      size_(peak(part, offsets_)),
      bound_(part.bound),
      greedy_passes_(thread * kGreedyRules),
      searches_below_(thread * kPlainSearches),
      rising_searches_(thread),
      node_limit_(static_cast<double>(std::max<std::int64_t>(kLeastNodes, 2 * part.count()))),
      weight_(at(part.count())),
      order_(at(part.count())),
      rank_(at(part.count())) {
  if (!part.pinned.empty()) gaps_.emplace(part);
}

void PartSearch::keep(const std::vector<std::int64_t>& offsets) {
  const std::int64_t size = peak(part_, offsets);
  if (size >= size_) return;
  size_ = size;
  offsets_ = offsets;
}

// 1 give or take up to half of `spread` thousandths. Only products and quotients of exact values, so that every
// machine has the same.
double PartSearch::noise(std::int64_t spread) {
  const auto drawn = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(spread + 1));
  return static_cast<double>(1000 - spread / 2 + drawn) / 1000.0;
}

// The least size above `size` that a placement can have: some piece is on top, and its last unit ends where it ends,
// which is in no reserved range.
std::int64_t PartSearch::next_size(std::int64_t size) const {
  for (const Interval& range : part_.reserved) {
    if (range.begin * part_.unit <= size) size = std::max(size, range.end * part_.unit);
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < part_.tail.size(); ++i) {
    if (part_.record[i] == Part::kNoRecord) continue;
    const std::int64_t tail = part_.tail[i];
    const std::int64_t units = (size - tail) / part_.unit + 1;
    least = std::min(least, units * part_.unit + tail);
  }
  return least;
}

void PartSearch::start(std::int64_t goal, Budget& budget) {
  if (!techniques_.skyline_passes) return;
  for (std::int64_t k = 0; k < kGreedyRules && size_ > goal; ++k) {
    place_greedily(goal, budget);
    if (budget.out_of_time() || budget.out_of_work()) return;
  }
}

// One pass over the pieces, ordered by a rule: on the skyline, and where anything is pinned first into gaps.
void PartSearch::place_greedily(std::int64_t goal, Budget& budget) {
  const std::int64_t rule = greedy_passes_ % kGreedyRules;
  const std::int64_t round = greedy_passes_ / kGreedyRules;
  const std::int64_t spread = round == 0 ? 0 : 300 * (1 + round % 4);
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    const auto life = static_cast<double>(part_.life[i]);
    const auto size = static_cast<double>(part_.size[i]);
    weight_[i] = rule == 0 ? life : rule == 1 ? life * size : rule == 2 ? life * life * size : size;
    if (spread > 0) weight_[i] *= noise(spread);
  }
  std::iota(order_.begin(), order_.end(), 0);
  budget.sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    if (weight_[at(a)] != weight_[at(b)]) return weight_[at(a)] > weight_[at(b)];
    return part_.size[at(a)] != part_.size[at(b)] ? part_.size[at(a)] > part_.size[at(b)] : a < b;
  });
  ++greedy_passes_;
  if (gaps_) {
    budget.spend(part_.count());
    const bool lowest_gap = round % 2 == 1;
    if (gaps_->run(order_, lowest_gap, size_, budget)) keep(gaps_->offsets());
    if (size_ <= goal || budget.out_of_time() || budget.out_of_work()) return;
  }
  budget.spend(part_.count() / kSortedInAStep);
  for (std::size_t k = 0; k < order_.size(); ++k) rank_[at(order_[k])] = static_cast<std::int32_t>(k);
  if (skyline_.run(rank_, Ceiling(part_, std::max(goal, size_ - 1)), budget)) keep(skyline_.offsets());
}

void PartSearch::draw_weights(std::int64_t turn) {
  const auto most_life = static_cast<double>(*std::max_element(part_.life.begin(), part_.life.end()));
  const auto most_size = static_cast<double>(*std::max_element(part_.load.begin(), part_.load.end()));
  const std::int64_t rule = turn % kWeightRules;
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    const double life = static_cast<double>(part_.life[i]) / most_life;
    const double size = static_cast<double>(part_.size[i]) / most_size;
    weight_[i] = rule == 0 ? life : rule == 1 ? size : rule == 2 ? life * size : life + size;
    if (turn >= kPlainSearches) weight_[i] *= noise(1400);
  }
}

// Searches depth first below the goal. That nothing is there is a proof of a better bound.
void PartSearch::search_below(std::int64_t goal, Budget& budget) {
  draw_weights(searches_below_);
  const PlateauSearch::Limits limits{static_cast<std::int64_t>(node_limit_)};
  const std::int64_t before = budget.spent();
  const Outcome outcome = plateau_->run(Ceiling(part_, goal), weight_, ordering_of(searches_below_), limits, budget);
  if (budget.spent() == before && ++idle_searches_ > kIdleSearches) budget.spend(kIdleSteps);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  if (outcome == Outcome::kNone) bound_ = next_size(goal);
  if (++searches_below_ % kSearchesPerLimit == 0) node_limit_ = std::min(node_limit_ * kMoreNodes, kMostNodes);
}

// Searches with guessed holes for so many steps, or more if the guess is a good one; once at least.
void PartSearch::search_guessed_holes(std::int64_t goal, std::int64_t steps, Budget& budget) {
  if (guessed_goal_ != goal) {
    guesses_.emplace(records_, part_, goal, size_, seed_, budget, techniques_);
    guessed_goal_ = goal;
  }
  if (guesses_->is_confident()) steps *= kMoreIfConfident;
  const std::int64_t before = budget.spent();
  do {
    if (guesses_->is_exhausted(size_)) return;
    if (guesses_->search_once(size_, budget)) keep(guesses_->offsets());
  } while (size_ > goal && budget.spent() - before < steps && !budget.out_of_time() && !budget.out_of_work());
}

// Searches once, from the goal upwards: the ceiling rises a little whenever no more pieces get placed.
void PartSearch::search_with_rising_ceiling(std::int64_t goal, Budget& budget) {
  draw_weights(rising_searches_);
  const Rising& rising = kRisings[static_cast<std::size_t>(rising_searches_) % kRisings.size()];
  const std::int64_t units = goal / part_.unit;
  PlateauSearch::Limits limits{
      std::max(10 * static_cast<std::int64_t>(node_limit_), kRisingNodesAPiece * part_.count())};
  limits.stall = rising.stall;
  limits.step = std::max<std::int64_t>(1, units / rising.steps);
  limits.raises = ((size_ - 1) / part_.unit - units) / limits.step;
  const Outcome outcome = plateau_->run(Ceiling(part_, goal), weight_, ordering_of(rising_searches_), limits, budget);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  ++rising_searches_;
}

// Searches depth first below a size between the goal and the best placement. It stands in for a rising ceiling, which
// would change what is reserved below it.
void PartSearch::search_between(std::int64_t goal, Budget& budget) {
  draw_weights(rising_searches_);
  const std::int64_t quarters = 1 + rising_searches_ % 4;
  const std::int64_t between = size_ - 1 - (size_ - 1 - goal) / 4 * (4 - quarters);
  const PlateauSearch::Limits limits{
      std::max(static_cast<std::int64_t>(node_limit_), kRisingNodesAPiece * part_.count())};
  const Outcome outcome =
      plateau_->run(Ceiling(part_, between), weight_, ordering_of(rising_searches_), limits, budget);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  if (outcome == Outcome::kNone) bound_ = std::max(bound_, next_size(between));
  ++rising_searches_;
}

bool PartSearch::improve(std::int64_t goal, Budget& budget) {
  if (!plateau_) plateau_.emplace(part_, techniques_);
  const std::int64_t spent = budget.spent();
  const std::int64_t bound = bound_;
  const auto goes_on = [&] { return size_ > goal && bound_ <= goal && !budget.out_of_time() && !budget.out_of_work(); };
  if (techniques_.plateau_searches) {
    for (std::int64_t k = 0; k < kSearchesPerTurn && goes_on(); ++k) search_below(goal, budget);
  }
  if (techniques_.guessed_holes && goes_on() && part_.pinned.empty()) {
    search_guessed_holes(goal, rising_steps_, budget);
  }
  std::int64_t before = budget.spent();
  if (techniques_.rising_ceilings && goes_on()) {
    part_.reserved.empty() ? search_with_rising_ceiling(goal, budget) : search_between(goal, budget);
  }
  rising_steps_ = budget.spent() - before;
  before = budget.spent();
  const std::int64_t greedy_steps = kSearchesPerTurn * static_cast<std::int64_t>(node_limit_);
  while (techniques_.skyline_passes && goes_on() && budget.spent() - before < greedy_steps) {
    place_greedily(goal, budget);
  }
  return budget.spent() > spent || bound_ > bound;
}

}  // namespace edgemem::offset_search
