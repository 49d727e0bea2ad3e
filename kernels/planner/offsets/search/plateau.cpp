#include "planner/offsets/search/plateau.h"

#include <algorithm>
#include <bit>

namespace edgemem::offset_search {

namespace {

constexpr std::size_t kLeastKeys = std::size_t{1} << 14;
constexpr std::size_t kMostKeys = std::size_t{1} << 20;

}  // namespace

PlateauSearch::PlateauSearch(const Part& part, const Holes* holes)
    : part_(part), holes_(holes), sections_(at(part.sections())), pinned_(!part.pinned.empty()) {}

// Takes the memory, at the first run: of a million pieces it takes a while.
void PlateauSearch::prepare() {
  const auto count = at(part_.count());
  const auto make = [&](auto& column, std::size_t size, auto value) {
    budget_->pass(static_cast<std::int64_t>(size));
    column.assign(size, value);
  };
  make(crossing_, sections_ + 1, 0);
  make(next_begin_, count + sections_, 0);
  make(prev_begin_, count + sections_, 0);
  make(next_end_, count + sections_ + 1, 0);
  make(prev_end_, count + sections_ + 1, 0);
  leaves_ = std::bit_ceil(sections_);
  make(winner_, 2 * leaves_, kNone);
  make(name_, count, std::uint64_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    const bool same = i > 0 && part_.identical(static_cast<std::int32_t>(i) - 1, static_cast<std::int32_t>(i));
    name_[i] = same ? name_[i - 1] : splitmix64(i);
    budget_->pass();
  }
  make(room_, sections_, std::int64_t{0});
  make(failures_, sections_, 1.0);
  make(offset_, count, std::int64_t{0});
  make(failed_, std::clamp(std::bit_ceil(16 * count), kLeastKeys, kMostKeys), Failed{});
  const std::size_t more = pinned_ ? sections_ : holes_ != nullptr ? holes_->boundary.size() : 0;
  make(cells_, 6 * sections_ + more, std::int64_t{0});
  if (pinned_) prepare_pins();
}

// The best end to branch on in a part of time.
std::int32_t PlateauSearch::best_line(std::int32_t begin, std::int32_t end) const {
  std::int32_t best = kNone;
  std::size_t low = leaves_ + at(begin);
  std::size_t high = leaves_ + at(end);
  for (; low < high; low /= 2, high /= 2) {
    if (low & 1U) {
      const std::int32_t a = winner_[low++];
      if (a != kNone && better(a, best)) best = a;
    }
    if (high & 1U) {
      const std::int32_t a = winner_[--high];
      if (a != kNone && better(a, best)) best = a;
    }
  }
  return best;
}

// What is left to place there and what was wasted, as a number.
std::uint64_t PlateauSearch::key_of(std::int32_t begin, std::int32_t end) {
  const std::int32_t heads = part_.count();
  std::uint64_t key = 0;
  for (std::int32_t t = begin; t < end; ++t) {
    for (std::int32_t i = next_begin_[at(heads + t)]; i < heads; i = next_begin_[at(i)]) key += name_[at(i)];
    key += lift_key(t);
    if (holes_ != nullptr && holes_->place[at(t)] >= 0) key += hole_key(holes_->place[at(t)]);
  }
  return key;
}

// Opens a frame for a part of time, unless it is known to fail.
PlateauSearch::Entered PlateauSearch::enter(std::int32_t begin, std::int32_t end, std::int32_t rest,
                                            std::uint64_t key) {
  ++nodes_;
  const Failed& known = failed_at(key);
  if (known.key == ((key ^ salt_) | 1U)) {
    conflict_ = known.conflict;
    return Entered::kFailed;
  }
  const std::int32_t line = best_line(begin, end);
  const bool right = (score(line) & 1) != 0;
  const std::size_t options_begin = options_.size();
  list_options(line, right);
  frames_.push_back({begin,
                     end,
                     line,
                     right,
                     rest,
                     options_begin,
                     options_.size(),
                     log_.size(),
                     rests_.size(),
                     key,
                     around(line),
                     {0, 0}});
  return Entered::kFrame;
}

// After a sound move of a frame: the parts that it left, the first of them entered.
PlateauSearch::Entered PlateauSearch::follow(const Frame& frame) {
  std::int32_t rest = frame.rest;
  if (cuts_.empty() && (frame.end - frame.begin > 1 || !settled(frame.begin))) {
    return enter(frame.begin, frame.end, rest, key_);
  }
  cuts_.push_back(frame.end);
  std::int32_t begin = frame.begin;
  for (const std::int32_t cut : std::vector<std::int32_t>(cuts_)) {
    if (cut - begin == 1 && settled(begin)) {
      if (!stack(begin)) return Entered::kFailed;
    } else {
      rests_.push_back({begin, cut, rest});
      rest = static_cast<std::int32_t>(rests_.size()) - 1;
    }
    begin = cut;
  }
  if (rest == kNone) return Entered::kDone;
  const Rest next = rests_[at(rest)];
  return enter(next.begin, next.end, next.next, key_of(next.begin, next.end));
}

// Back to the last choice that touched what the failure depends on; false when there is none.
bool PlateauSearch::jump(std::size_t top) {
  while (top > 0) {
    Frame& frame = frames_[--top];
    if (frame.touched.begin >= conflict_.end || conflict_.begin >= frame.touched.end) continue;
    frame.conflict.begin = std::min(frame.conflict.begin, conflict_.begin);
    frame.conflict.end = std::max(frame.conflict.end, conflict_.end);
    options_.resize(frame.options_end);
    rests_.resize(frame.rests_mark);
    undo(frame.mark);
    frames_.resize(top + 1);
    return true;
  }
  return false;
}

// More room for every section. What was tried before is not tried again; what failed before may not fail now.
void PlateauSearch::raise(std::int64_t units) {
  ceiling_.units += units;
  for (std::int64_t& room : room_) room += units;
  salt();
  raised_frames_ = frames_.size();
  const auto sections = static_cast<std::int32_t>(sections_);
  for (std::int32_t line = 0; line < sections; line = static_cast<std::int32_t>(line_end(line))) {
    if (score(line) == kInfinite) continue;
    budget_->pass(line_end(line) - line);
    rescore(line);
  }
}

void PlateauSearch::salt() {
  salt_ =
      splitmix64(splitmix64(static_cast<std::uint64_t>(ceiling_.units)) ^ static_cast<std::uint64_t>(ceiling_.tail));
}

Outcome PlateauSearch::run(Ceiling ceiling, std::span<const double> weight, const Style& style, const Limits& limits,
                           Budget& budget) {
  budget_ = &budget;
  if (cells_.empty()) prepare();
  ceiling_ = ceiling;
  if (pinned_ && !within_reach()) return Outcome::kNone;
  reset(weight);
  style_ = style;
  raised_frames_ = 0;
  salt();
  const std::int64_t stop = nodes_ + limits.nodes;
  const auto sections = static_cast<std::int32_t>(sections_);
  for (std::int32_t t = 0; t < sections; ++t) {
    if (spare(t) < 0) return Outcome::kNone;
  }
  line_end(0) = sections;
  line_begin(sections - 1) = 0;
  if (sections == 1 && settled(0)) return stack(0) ? Outcome::kFound : Outcome::kNone;
  if (!rescore(0)) return Outcome::kNone;
  if (enter(0, sections, kNone, key_of(0, sections)) != Entered::kFrame) return Outcome::kNone;
  std::int64_t raises = 0;
  std::int64_t deepest_at = nodes_;
  std::int32_t deepest = 0;
  for (;;) {
    if (nodes_ >= stop || !budget.spend(1)) return Outcome::kLimit;
    if (limits.stall > 0) {
      if (placed_ > deepest) {
        deepest = placed_;
        deepest_at = nodes_;
      } else if (nodes_ - deepest_at >= limits.stall) {
        if (raises == limits.raises) return Outcome::kLimit;
        ++raises;
        raise(limits.step);
        deepest_at = nodes_;
      }
    }
    Frame& frame = frames_.back();
    if (frame.option == frame.options_end) {
      conflict_ = frame.conflict;
      if (frames_.size() > raised_frames_) failed_at(frame.key) = {(frame.key ^ salt_) | 1U, conflict_};
      if (!jump(frames_.size() - 1)) return raises > 0 ? Outcome::kLimit : Outcome::kNone;
      continue;
    }
    const Option option = options_[frame.option++];
    key_ = frame.key;
    bool sound = false;
    if (option.piece == kHole) {
      frame.touched = {holes_->boundary[at(option.from)], holes_->boundary[at(option.to)]};
      sound = waste_hole(option, frame.line);
    } else if (option.piece == kLift) {
      const std::int32_t section = frame.right ? static_cast<std::int32_t>(line_end(frame.line)) - 1 : frame.line;
      frame.touched = {section, section + 1};
      sound = lift(frame.line, frame.right);
    } else {
      frame.touched = {part_.begin[at(option.piece)], part_.end[at(option.piece)]};
      sound = place(option.piece, frame.line);
    }
    const Entered entered = sound ? follow(Frame(frame)) : Entered::kFailed;
    if (entered == Entered::kDone) return Outcome::kFound;
    if (entered == Entered::kFailed && !jump(frames_.size())) return raises > 0 ? Outcome::kLimit : Outcome::kNone;
  }
}

}  // namespace edgemem::offset_search
