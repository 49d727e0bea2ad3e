#include "planner/shared_objects/search/exchange.h"

#include <algorithm>
#include <utility>

#include "planner/common/builtins.h"

namespace edgemem::object_search {
namespace {

constexpr Box kNone{0, 0, 0};

// What a plan may be above the best at the start of a round, as a share of it; round after round.
constexpr std::array kLeeway{0.0, 0.003, 0.01, 0.03};

// What two objects take together; a sum beyond int64 counts as its maximum.
std::int64_t together(const Box& a, const Box& b) {
  std::int64_t sum = 0;
  return add_overflows(content(a), content(b), &sum) ? kInt64Max : sum;
}

}  // namespace

Exchange::Exchange(const Items& items, Plan plan, Budget& budget, std::uint64_t seed)
    : items_(items), budget_(budget), random_(seed), best_(std::move(plan)) {}

void Exchange::start_round() {
  plan_ = best_;
  list_members();
  turn_ = 0;
  // The first rounds are short; every four are longer.
  turns_ = (2'000 + 10 * std::int64_t{items_.count()}) << std::min<std::int64_t>(round_ / std::ssize(kLeeway), 12);
  ++round_;
}

void Exchange::list_members() {
  members_.assign(plan_.boxes.size(), {});
  for (std::size_t p = 0; p < plan_.object.size(); ++p) {
    members_[static_cast<std::size_t>(plan_.object[p])].push_back(static_cast<std::int32_t>(p));
  }
}

void Exchange::cut_into_stretches(std::size_t one, std::size_t other) {
  both_.clear();
  auto a = members_[one].begin();
  auto b = members_[other].begin();
  while (a != members_[one].end() || b != members_[other].end()) {
    const bool from_other = a == members_[one].end() || (b != members_[other].end() && *b < *a);
    both_.emplace_back(from_other ? *b++ : *a++, from_other);
  }
  stretches_.clear();
  std::int32_t end = -1;
  for (std::size_t i = 0; i < both_.size(); ++i) {
    const auto item = static_cast<std::size_t>(both_[i].first);
    if (items_.begin[item] >= end) stretches_.push_back({i, i, {kNone, kNone}, 0, false});
    Stretch& stretch = stretches_.back();
    stretch.to = i + 1;
    Box& has = stretch.has[both_[i].second ? 1 : 0];
    has = cover(has, items_.box_of(both_[i].first));
    stretch.content = std::max(stretch.content, content(has));
    end = std::max(end, items_.end[item]);
  }
}

// The largest stretch first, each the way in which both objects stay smaller.
std::array<Box, 2> Exchange::arrange() {
  std::sort(stretches_.begin(), stretches_.end(), [](const Stretch& a, const Stretch& b) {
    return a.content != b.content ? a.content > b.content : a.from < b.from;
  });
  const std::size_t wrong = pick(4) == 0 ? pick(stretches_.size()) : stretches_.size();
  std::array<Box, 2> box{kNone, kNone};
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    Stretch& stretch = stretches_[i];
    const std::int64_t straight = together(cover(box[0], stretch.has[0]), cover(box[1], stretch.has[1]));
    const std::int64_t crossed = together(cover(box[0], stretch.has[1]), cover(box[1], stretch.has[0]));
    stretch.swapped = (crossed < straight || (crossed == straight && pick(2) == 1)) != (i == wrong);
    box[0] = cover(box[0], stretch.has[stretch.swapped ? 1 : 0]);
    box[1] = cover(box[1], stretch.has[stretch.swapped ? 0 : 1]);
  }
  return box;
}

bool Exchange::step() {
  if (turn_++ == turns_) start_round();
  budget_.spend(1);
  const std::size_t objects = members_.size();
  if (objects < 2) return false;
  const std::size_t one = pick(objects);
  const std::size_t other = (one + 1 + pick(objects - 1)) % objects;
  cut_into_stretches(one, other);
  budget_.spend(static_cast<std::int64_t>(both_.size() / 4));
  const std::array<Box, 2> box = arrange();
  const std::int64_t before = together(plan_.boxes[one], plan_.boxes[other]);
  const std::int64_t after = together(box[0], box[1]);
  const double share = kLeeway[static_cast<std::size_t>((round_ - 1) % std::ssize(kLeeway))];
  const auto leeway = static_cast<std::int64_t>(static_cast<double>(best_.total) * share *
                                                static_cast<double>(turns_ - turn_) / static_cast<double>(turns_));
  if (after > before && after - before > best_.total - plan_.total + leeway) return false;
  for (const Stretch& stretch : stretches_) {
    for (std::size_t i = stretch.from; i < stretch.to; ++i) both_[i].second = both_[i].second != stretch.swapped;
  }
  members_[one].clear();
  members_[other].clear();
  for (const auto& [item, in_other] : both_) {
    const std::size_t object = in_other ? other : one;
    members_[object].push_back(item);
    plan_.object[static_cast<std::size_t>(item)] = static_cast<std::int32_t>(object);
  }
  plan_.boxes[one] = box[0];
  plan_.boxes[other] = box[1];
  plan_.total += after - before;
  if (members_[one].empty() || members_[other].empty()) {
    plan_ = plan_of(items_, plan_.object);
    list_members();
  }
  if (plan_.total >= best_.total) return false;
  best_ = plan_;
  return true;
}

}  // namespace edgemem::object_search
