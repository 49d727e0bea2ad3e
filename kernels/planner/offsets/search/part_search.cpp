#include "planner/offsets/search/part_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace edgemem::offset_search {

namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

constexpr std::int64_t kPlainPasses = 4;  // skyline orders without noise
constexpr std::int64_t kPlainAims = 8;    // plateau searches whose weights carry no noise
constexpr std::int64_t kAimsPerTurn = 4;
constexpr std::int64_t kMoreIfConfident = 4;
constexpr std::int64_t kSortedInAStep = 16;
constexpr std::int64_t kLeastNodes = 1000;  // of a plateau search before it starts again
constexpr double kMoreNodes = 1.3;          // that limit's growth
constexpr std::int64_t kAimsPerLimit = 16;
constexpr std::int64_t kCreepNodes = 60;  // a piece, of a search with a rising ceiling

struct Creep {
  std::int64_t stall;  // nodes without progress that raise the ceiling
  std::int64_t steps;  // in the goal
};
constexpr std::array<Creep, 2> kCreeps{{{300, 500}, {1000, 1000}}};

}  // namespace

PartSearch::PartSearch(const Records& records, const Part& part, std::uint64_t seed, std::int64_t place)
    : records_(records),
      part_(part),
      seed_(seed),
      skyline_(part),
      random_(seed),
      offsets_(at(part.count())),
      size_(0),
      bound_(part.bound),
      passes_(place * kPlainPasses),
      aims_(place * kPlainAims),
      creeps_(place),
      node_limit_(static_cast<double>(std::max<std::int64_t>(kLeastNodes, 2 * part.count()))),
      weight_(at(part.count())),
      order_(at(part.count())),
      rank_(at(part.count())) {
  offsets_ = end_to_end(part);
  if (!part.pinned.empty()) gaps_.emplace(part);
  size_ = peak(part, offsets_);
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
  for (std::int64_t k = 0; k < kPlainPasses && size_ > goal; ++k) {
    pass(goal, budget);
    if (budget.out_of_time() || budget.out_of_work()) return;
  }
}

void PartSearch::pass(std::int64_t goal, Budget& budget) {
  const std::int64_t kind = passes_ % kPlainPasses;
  const std::int64_t spread = passes_ < kPlainPasses ? 0 : 300 * (1 + passes_ / kPlainPasses % 4);
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    const auto life = static_cast<double>(part_.life[i]);
    const auto size = static_cast<double>(part_.size[i]);
    weight_[i] = kind == 0 ? life : kind == 1 ? life * size : kind == 2 ? life * life * size : size;
    if (spread > 0) weight_[i] *= noise(spread);
  }
  std::iota(order_.begin(), order_.end(), 0);
  budget.sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    if (weight_[at(a)] != weight_[at(b)]) return weight_[at(a)] > weight_[at(b)];
    return part_.size[at(a)] != part_.size[at(b)] ? part_.size[at(a)] > part_.size[at(b)] : a < b;
  });
  if (gaps_) {
    budget.spend(part_.count());
    if (gaps_->run(order_, passes_ / kPlainPasses % 2 == 1, size_, budget)) keep(gaps_->offsets());
    ++passes_;
    return;
  }
  budget.spend(part_.count() / kSortedInAStep);
  for (std::size_t k = 0; k < order_.size(); ++k) rank_[at(order_[k])] = static_cast<std::int32_t>(k);
  if (skyline_.run(rank_, Ceiling(part_, std::max(goal, size_ - 1)), budget)) keep(skyline_.offsets());
  ++passes_;
}

void PartSearch::weigh(std::int64_t turn) {
  const auto most_life = static_cast<double>(*std::max_element(part_.life.begin(), part_.life.end()));
  const auto most_size = static_cast<double>(*std::max_element(part_.load.begin(), part_.load.end()));
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    const double life = static_cast<double>(part_.life[i]) / most_life;
    const double size = static_cast<double>(part_.size[i]) / most_size;
    const std::int64_t kind = turn % 4;
    weight_[i] = kind == 0 ? life : kind == 1 ? size : kind == 2 ? life * size : life + size;
    if (turn >= kPlainAims) weight_[i] *= noise(1400);
  }
}

// By turns with and without each of the two.
PlateauSearch::Style PartSearch::style(std::int64_t turn) { return {turn / 8 % 2 == 1, turn / 4 % 2 == 0}; }

void PartSearch::aim(std::int64_t goal, Budget& budget) {
  weigh(aims_);
  const PlateauSearch::Limits limits{static_cast<std::int64_t>(node_limit_)};
  const Outcome outcome = plateau_->run(Ceiling(part_, goal), weight_, style(aims_), limits, budget);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  if (outcome == Outcome::kNone) bound_ = next_size(goal);
  if (++aims_ % kAimsPerLimit == 0) node_limit_ *= kMoreNodes;
}

// Searches with guessed holes for so many steps, or more if the guess is a good one; once at least.
void PartSearch::guess(std::int64_t goal, std::int64_t steps, Budget& budget) {
  if (guessed_goal_ != goal) {
    guesses_.emplace(records_, part_, goal, size_, seed_, budget);
    guessed_goal_ = goal;
  }
  if (guesses_->confident()) steps *= kMoreIfConfident;
  const std::int64_t before = budget.spent();
  do {
    if (guesses_->exhausted(size_)) return;
    if (guesses_->aim(size_, budget)) keep(guesses_->offsets());
  } while (size_ > goal && budget.spent() - before < steps && !budget.out_of_time() && !budget.out_of_work());
}

void PartSearch::creep(std::int64_t goal, Budget& budget) {
  weigh(creeps_);
  const Creep& kind = kCreeps[static_cast<std::size_t>(creeps_) % kCreeps.size()];
  const std::int64_t units = goal / part_.unit;
  PlateauSearch::Limits limits{std::max(10 * static_cast<std::int64_t>(node_limit_), kCreepNodes * part_.count())};
  limits.stall = kind.stall;
  limits.step = std::max<std::int64_t>(1, units / kind.steps);
  limits.raises = ((size_ - 1) / part_.unit - units) / limits.step;
  const Outcome outcome = plateau_->run(Ceiling(part_, goal), weight_, style(creeps_), limits, budget);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  ++creeps_;
}

// Instead of a rising ceiling, which changes what is reserved below it.
void PartSearch::aim_between(std::int64_t goal, Budget& budget) {
  weigh(creeps_);
  const std::int64_t quarters = 1 + creeps_ % 4;
  const std::int64_t between = size_ - 1 - (size_ - 1 - goal) / 4 * (4 - quarters);
  const PlateauSearch::Limits limits{std::max(static_cast<std::int64_t>(node_limit_), kCreepNodes * part_.count())};
  const Outcome outcome = plateau_->run(Ceiling(part_, between), weight_, style(creeps_), limits, budget);
  if (outcome == Outcome::kFound) keep(plateau_->offsets());
  if (outcome == Outcome::kNone) bound_ = std::max(bound_, next_size(between));
  ++creeps_;
}

void PartSearch::improve(std::int64_t goal, Budget& budget) {
  if (!plateau_) plateau_.emplace(part_);
  const auto go_on = [&] { return size_ > goal && bound_ <= goal && !budget.out_of_time() && !budget.out_of_work(); };
  for (std::int64_t k = 0; k < kAimsPerTurn && go_on(); ++k) aim(goal, budget);
  if (go_on() && part_.pinned.empty()) guess(goal, creep_steps_, budget);
  std::int64_t before = budget.spent();
  if (go_on() && part_.reserved.empty()) {
    creep(goal, budget);
  } else if (go_on()) {
    aim_between(goal, budget);
  }
  creep_steps_ = budget.spent() - before;
  before = budget.spent();
  while (go_on() && budget.spent() - before < kAimsPerTurn * static_cast<std::int64_t>(node_limit_)) pass(goal, budget);
}

}  // namespace edgemem::offset_search
