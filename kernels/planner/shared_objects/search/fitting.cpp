#include "planner/shared_objects/search/fitting.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "planner/common/splitmix64.h"

namespace edgemem::object_search {
namespace {

constexpr std::size_t kMostSlots = std::size_t{1} << 20;  // entries of the matchings
constexpr std::size_t kMostDead = std::size_t{1} << 20;

DeadStates::Key hashed(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t once = splitmix64(splitmix64(a) + b);
  return {once, splitmix64(once ^ 0xd6e8feb86659fd93)};
}

}  // namespace

void DeadStates::clear() {
  filled_ = 0;
  if (++stamp_ == 0) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    stamp_ = 1;
  }
}

std::size_t DeadStates::slot_of(const Key& key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = key[0] & mask;
  while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

bool DeadStates::contains(const Key& key) const { return slots_[slot_of(key)].stamp == stamp_; }

void DeadStates::place(const Key& key) {
  Slot& slot = slots_[slot_of(key)];
  if (slot.stamp != stamp_) ++filled_;
  slot = {key, stamp_};
}

void DeadStates::insert(const Key& key) {
  if (2 * filled_ >= slots_.size()) {
    if (slots_.size() >= kMostDead) {
      clear();
    } else {
      std::vector<Slot> old(2 * slots_.size());
      old.swap(slots_);
      const std::uint32_t stamp = std::exchange(stamp_, 1);
      filled_ = 0;
      for (const Slot& slot : old) {
        if (slot.stamp == stamp) place(slot.key);
      }
    }
  }
  place(key);
}

bool Fitting::spend(std::int64_t steps) {
  left_ -= steps;
  return budget_.spend(steps) && left_ > 0;
}

void Fitting::sort_classes(std::span<const Box> stock) {
  order_.resize(stock.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto box = [&](std::int32_t i) -> const Box& { return stock[static_cast<std::size_t>(i)]; };
  std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return std::tuple(content(box(a)), box(a), a) < std::tuple(content(box(b)), box(b), b);
  });
  classes_.clear();
  is_nested_ = items_.is_nested;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Box& own = box(order_[i]);
    if (!classes_.empty() && classes_.back().box == own) {
      ++classes_.back().count;
    } else {
      is_nested_ = is_nested_ && (classes_.empty() || holds(own, classes_.back().box));
      classes_.push_back({own, content(own), static_cast<std::int32_t>(i), 1});
    }
  }
}

void Fitting::lay_out(std::span<const std::int32_t> members) {
  members_.assign(members.begin(), members.end());
  const std::size_t n = members_.size();
  low_.resize(n);
  begin_.resize(n);
  end_.resize(n);
  has_.assign(n, 0);
  tried_.resize(n);
  same_.resize(n);
  std::vector<std::int32_t> starts;
  for (std::size_t k = 0; k < n; ++k) {
    const auto item = static_cast<std::size_t>(members_[k]);
    if (starts.empty() || starts.back() != items_.begin[item]) starts.push_back(items_.begin[item]);
    begin_[k] = starts.size() - 1;
    const std::int64_t own = content(items_.box_of(members_[k]));
    low_[k] = static_cast<std::size_t>(
        std::partition_point(classes_.begin(), classes_.end(), [own](const Class& c) { return c.content < own; }) -
        classes_.begin());
  }
  sections_ = starts.size();
  for (std::size_t k = 0; k < n; ++k) {
    const std::int32_t end = items_.end[static_cast<std::size_t>(members_[k])];
    end_[k] = static_cast<std::size_t>(std::lower_bound(starts.begin(), starts.end(), end) - starts.begin());
    same_[k] =
        k > 0 && begin_[k] == begin_[k - 1] && end_[k] == end_[k - 1] &&
        items_.type[static_cast<std::size_t>(members_[k])] == items_.type[static_cast<std::size_t>(members_[k - 1])];
  }
  by_end_.resize(n);
  std::iota(by_end_.begin(), by_end_.end(), std::size_t{0});
  std::sort(by_end_.begin(), by_end_.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(end_[a], a) < std::pair(end_[b], b); });
  released_.assign(n + 1, 0);
  for (std::size_t k = 0; k < n; ++k) {
    released_[k + 1] = released_[k];
    while (end_[by_end_[released_[k + 1]]] <= begin_[k]) ++released_[k + 1];
  }
  free_.clear();
  for (const Class& c : classes_) free_.push_back(c.count);
  state_ = {};
  dead_.clear();
}

std::size_t Fitting::slot_of(std::size_t section, std::size_t k) const {
  const auto from = live_.begin() + static_cast<std::ptrdiff_t>(live_start_[section]);
  const auto to = live_.begin() + static_cast<std::ptrdiff_t>(live_start_[section + 1]);
  return static_cast<std::size_t>(std::lower_bound(from, to, k) - live_.begin());
}

// Gives every section a matching of its own, each from that of the section before. False where there is none.
bool Fitting::match_all() {
  const std::size_t n = members_.size();
  std::size_t total = sections_ * classes_.size();
  for (std::size_t k = 0; k < n && total <= kMostSlots; ++k) total += end_[k] - begin_[k];
  matched_ = total <= kMostSlots;
  if (!matched_) return true;
  live_start_.assign(sections_ + 1, 0);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t s = begin_[k]; s < end_[k]; ++s) ++live_start_[s + 1];
  }
  std::partial_sum(live_start_.begin(), live_start_.end(), live_start_.begin());
  live_.resize(live_start_.back());
  in_.assign(live_.size(), classes_.size());  // none yet
  std::vector<std::size_t> next(live_start_.begin(), live_start_.end() - 1);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t s = begin_[k]; s < end_[k]; ++s) live_[next[s]++] = k;
  }
  used_.assign(sections_ * classes_.size(), 0);
  chosen_ = 0;
  for (std::size_t s = 0; s < sections_; ++s) {
    std::size_t slot = live_start_[s];
    for (; slot < live_start_[s + 1] && begin_[live_[slot]] < s; ++slot) {
      in_[slot] = in_[slot_of(s - 1, live_[slot])];
      ++used_[s * classes_.size() + in_[slot]];
    }
    for (; slot < live_start_[s + 1]; ++slot) {
      if (!spend(1)) return true;
      visited_.assign(classes_.size(), false);
      if (augment(s, slot)) continue;
      // Hall: the classes visited are too few for the new item and those that have them.
      misfits_.clear();
      for (std::size_t other = live_start_[s]; other <= slot; ++other) {
        if (other == slot || visited_[in_[other]]) misfits_.push_back(members_[live_[other]]);
      }
      return false;
    }
  }
  return true;
}

bool Fitting::augment(std::size_t section, std::size_t slot) {
  const std::size_t k = live_[slot];
  for (std::size_t c = low_[k]; c < classes_.size(); ++c) {
    if (visited_[c] || !member_fits(k, c)) continue;
    visited_[c] = true;
    std::int32_t& used = used_[section * classes_.size() + c];
    if (used == classes_[c].count && !relieve(section, c)) continue;
    ++used;
    in_[slot] = c;
    return true;
  }
  return false;
}

// Moves a live item whose class is not chosen yet from this class to another.
bool Fitting::relieve(std::size_t section, std::size_t c) {
  for (std::size_t slot = live_start_[section]; slot < live_start_[section + 1]; ++slot) {
    if (in_[slot] != c || live_[slot] < chosen_) continue;
    if (!augment(section, slot)) continue;
    --used_[section * classes_.size() + c];
    return true;
  }
  return false;
}

// Whether all sections of the member's life still have a matching with it in this class; they take it over.
bool Fitting::choose(std::size_t k, std::size_t c) {
  if (!matched_) return true;
  chosen_ = k + 1;
  for (std::size_t s = begin_[k]; s < end_[k]; ++s) {
    const std::size_t slot = slot_of(s, k);
    const std::size_t before = in_[slot];
    if (before == c) continue;
    spend(1);
    std::int32_t* const used = &used_[s * classes_.size()];
    in_[slot] = c;
    --used[before];
    ++used[c];
    if (used[c] <= classes_[c].count) continue;
    visited_.assign(classes_.size(), false);
    visited_[c] = true;
    if (relieve(s, c)) continue;
    in_[slot] = before;
    ++used[before];
    --used[c];
    reach_ = std::max(reach_, live_[live_start_[s + 1] - 1]);
    return false;
  }
  return true;
}

void Fitting::count_state(std::size_t k, bool add) {
  const DeadStates::Key item = hashed(has_[k], end_[k]);
  for (std::size_t i = 0; i < 2; ++i) state_[i] += add ? item[i] : ~item[i] + 1;
}

DeadStates::Key Fitting::key(std::size_t k) const {
  const DeadStates::Key here = hashed(k, same_[k] ? has_[k - 1] + 1 : 0);
  return {splitmix64(state_[0] + here[0]), splitmix64(state_[1] + here[1])};
}

void Fitting::take(std::size_t k, std::size_t c) {
  has_[k] = c;
  --free_[c];
  count_state(k, true);
}

void Fitting::give_back(std::size_t k) {
  ++free_[has_[k]];
  count_state(k, false);
}

// Time moves on to this member's begin. False in a dead state.
bool Fitting::enter(std::size_t k) {
  for (std::size_t i = released_[k]; i < released_[k + 1]; ++i) give_back(by_end_[i]);
  tried_[k] = static_cast<std::int64_t>(same_[k] ? has_[k - 1] : low_[k]) - 1;
  return !dead_.contains(key(k));
}

void Fitting::leave(std::size_t k) {
  for (std::size_t i = released_[k]; i < released_[k + 1]; ++i) take(by_end_[i], has_[by_end_[i]]);
}

Fitting::Answer Fitting::search() {
  const std::size_t n = members_.size();
  reach_ = 0;
  std::size_t k = 0;
  if (n == 0) return Answer::kFits;
  bool alive = enter(0);
  for (;;) {
    std::size_t c = classes_.size();
    if (alive) {
      for (c = static_cast<std::size_t>(tried_[k] + 1); c < classes_.size(); ++c) {
        if (free_[c] == 0 || !member_fits(k, c)) continue;
        if (!spend(1)) return Answer::kUnknown;
        if (choose(k, c)) break;
      }
    }
    if (c < classes_.size()) {
      tried_[k] = static_cast<std::int64_t>(c);
      take(k, c);
      if (++k == n) return Answer::kFits;
      reach_ = std::max(reach_, k);
      alive = enter(k);
      continue;
    }
    if (alive) dead_.insert(key(k));
    leave(k);
    if (k == 0) break;
    give_back(--k);
    alive = true;
  }
  misfits_.assign(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(reach_) + 1);
  return Answer::kDoesNot;
}

Fitting::Answer Fitting::run(std::span<const Box> stock, std::span<const std::int32_t> members, std::int64_t most) {
  left_ = most;
  if (!spend(1 + static_cast<std::int64_t>(members.size()) / 16)) return Answer::kUnknown;
  sort_classes(stock);
  lay_out(members);
  if (!match_all()) return Answer::kDoesNot;
  if (left_ <= 0 || budget_.out_of_work() || budget_.out_of_time()) return Answer::kUnknown;
  return search();
}

std::vector<std::int32_t> Fitting::places() const {
  std::vector<std::vector<std::int32_t>> spare(classes_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    for (std::int32_t i = classes_[c].count; i-- > 0;) {
      spare[c].push_back(order_[static_cast<std::size_t>(classes_[c].first + i)]);
    }
  }
  std::vector<std::int32_t> places(members_.size());
  for (std::size_t k = 0; k < members_.size(); ++k) {
    for (std::size_t i = released_[k]; i < released_[k + 1]; ++i) spare[has_[by_end_[i]]].push_back(places[by_end_[i]]);
    places[k] = spare[has_[k]].back();
    spare[has_[k]].pop_back();
  }
  return places;
}

}  // namespace edgemem::object_search
