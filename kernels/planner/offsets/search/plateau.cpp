#include "planner/offsets/search/plateau.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "planner/common/splitmix64.h"

namespace edgemem::offset_search {

namespace {

constexpr std::size_t kLeastFailed = std::size_t{1} << 14;  // failed states that are remembered
constexpr std::size_t kMostFailed = std::size_t{1} << 20;

}  // namespace

PlateauSearch::PlateauSearch(const Part& part, const Techniques& techniques, const Holes* holes)
    : part_(part),
      holes_(holes),
      techniques_(techniques),
      state_(part, holes, techniques),
      find_options_(part, holes, state_) {}

void PlateauSearch::allocate() {
  const auto count = at(part_.count());
  const std::size_t failed = std::clamp(std::bit_ceil(16 * count), kLeastFailed, kMostFailed);
  budget_->pass(static_cast<std::int64_t>(at(part_.sections()) + count + failed));
  failures_.assign(at(part_.sections()), 1.0);
  if (part_.pinned.empty()) {
    offset_.assign(count, 0);
  } else {
    offset_ = part_.pinned;
  }
  failed_.assign(failed, Failed{});
  state_.allocate(*budget_);
}

// Opens a frame for a region, unless it is known to fail.
PlateauSearch::Entered PlateauSearch::enter(std::int32_t begin, std::int32_t end, std::int32_t pending,
                                            std::uint64_t key) {
  ++nodes_;
  const Failed& known = failed_at(key);
  if (techniques_.remember_failed_states && known.key == ((key ^ ceiling_key_) | 1U)) {
    conflict_ = known.conflict;
    return Entered::kFailed;
  }
  const std::int32_t line = state_.best_line(begin, end);
  const bool right = (state_.score(line) & 1) != 0;
  const std::size_t options_begin = options_.size();
  find_options_.list(state_.walls_of(line), right, options_, *budget_);
  frames_.push_back({begin,
                     end,
                     line,
                     right,
                     pending,
                     options_begin,
                     options_.size(),
                     state_.log_size(),
                     pending_.size(),
                     key,
                     with_walls(line),
                     {0, 0}});
  return Entered::kFrame;
}

// Makes the next move of a frame, and enters what it leaves.
PlateauSearch::Entered PlateauSearch::try_option(Frame& frame) {
  const Option option = options_[frame.option++];
  key_ = frame.key;
  bool possible = false;
  if (option.piece == Option::kHole) {
    frame.touched = {holes_->boundary[at(option.from)], holes_->boundary[at(option.to)]};
    possible = leave_hole(option, frame.line);
  } else if (option.piece == Option::kLift) {
    const std::int32_t section = frame.right ? state_.line_end(frame.line) - 1 : frame.line;
    frame.touched = {section, section + 1};
    possible = lift(frame.line, frame.right);
  } else {
    frame.touched = {part_.begin[at(option.piece)], part_.end[at(option.piece)]};
    possible = place(option.piece, frame.line);
  }
  return possible ? continue_after_move(Frame(frame)) : Entered::kFailed;
}

// The last move may have cut the frame's region into several. Those without a choice are stacked; the first of the
// others is entered, the rest are pending.
PlateauSearch::Entered PlateauSearch::continue_after_move(const Frame& frame) {
  std::int32_t pending = frame.pending;
  if (cuts_.empty() && (frame.end - frame.begin > 1 || !state_.needs_no_choice(frame.begin))) {
    return enter(frame.begin, frame.end, pending, key_);
  }
  cuts_.push_back(frame.end);
  std::int32_t begin = frame.begin;
  for (const std::int32_t cut : std::vector<std::int32_t>(cuts_)) {
    if (cut - begin == 1 && state_.needs_no_choice(begin)) {
      if (!stack(begin)) return Entered::kFailed;
    } else {
      pending_.push_back({begin, cut, pending});
      pending = static_cast<std::int32_t>(pending_.size()) - 1;
    }
    begin = cut;
  }
  if (pending == kNone) return Entered::kDone;
  const Pending next = pending_[at(pending)];
  return enter(next.begin, next.end, next.next, state_.key_of(next.begin, next.end));
}

// Goes back to the last of the first `top` frames that touched what the failure depends on. False if there is none.
bool PlateauSearch::go_back(std::size_t top) {
  while (top > 0) {
    Frame& frame = frames_[--top];
    const bool blameless = frame.touched.begin >= conflict_.end || conflict_.begin >= frame.touched.end;
    if (blameless && techniques_.jump_back) continue;
    frame.conflict.begin = std::min(frame.conflict.begin, conflict_.begin);
    frame.conflict.end = std::max(frame.conflict.end, conflict_.end);
    options_.resize(frame.options_end);
    pending_.resize(frame.pending_size);
    state_.undo(frame.log_size, *budget_);
    frames_.resize(top + 1);
    return true;
  }
  return false;
}

// More room for every section. What was tried before is not tried again; what failed before may not fail now.
void PlateauSearch::raise_ceiling(std::int64_t units) {
  state_.raise_ceiling(units);
  update_ceiling_key();
  raised_frames_ = frames_.size();
  for (std::int32_t line = 0; line < part_.sections(); line = state_.line_end(line)) {
    if (state_.score(line) == kInfinite) continue;
    budget_->pass(state_.line_end(line) - line);
    rescore(line);
  }
}

void PlateauSearch::update_ceiling_key() {
  const Ceiling& ceiling = state_.ceiling();
  ceiling_key_ =
      splitmix64(splitmix64(static_cast<std::uint64_t>(ceiling.units)) ^ static_cast<std::uint64_t>(ceiling.tail));
}

// Empties the search of a former run.
bool PlateauSearch::start(std::span<const double> weight) {
  find_options_.order_by(weight, ordering_.prefer_wall_contact);
  frames_.clear();
  options_.clear();
  pending_.clear();
  raised_frames_ = 0;
  update_ceiling_key();
  for (std::int32_t t = 0; t < part_.sections(); ++t) {
    if (state_.spare(t) < 0) return false;
  }
  state_.start_with_one_line();
  return true;
}

Outcome PlateauSearch::run(const Ceiling& ceiling, std::span<const double> weight, const Ordering& ordering,
                           const Limits& limits, Budget& budget) {
  budget_ = &budget;
  if (!state_.is_allocated()) allocate();
  const std::optional<Ceiling> reachable = part_.pinned.empty() ? ceiling : ceiling_around_pins(part_, ceiling);
  if (!reachable) return Outcome::kNone;
  ordering_ = {ordering.learn_from_failures && techniques_.learn_from_failures,
               ordering.prefer_wall_contact && techniques_.prefer_wall_contact};
  if (!state_.reset(*reachable, budget)) return Outcome::kNone;
  const std::int64_t stop = nodes_ + limits.nodes;
  const std::int32_t sections = part_.sections();
  if (!start(weight)) return Outcome::kNone;
  if (sections == 1 && state_.needs_no_choice(0)) return stack(0) ? Outcome::kFound : Outcome::kNone;
  if (!rescore(0)) return Outcome::kNone;
  if (enter(0, sections, kNone, state_.key_of(0, sections)) != Entered::kFrame) return Outcome::kNone;
  std::int64_t raises = 0;
  std::int64_t deepest_at = nodes_;
  std::int32_t deepest = 0;
  for (;;) {
    if (nodes_ >= stop || !budget.spend(1)) return Outcome::kLimit;
    if (limits.stall > 0) {
      if (state_.placed() > deepest) {
        deepest = state_.placed();
        deepest_at = nodes_;
      } else if (nodes_ - deepest_at >= limits.stall) {
        if (raises == limits.raises) return Outcome::kLimit;
        ++raises;
        raise_ceiling(limits.step);
        deepest_at = nodes_;
      }
    }
    Frame& frame = frames_.back();
    bool goes_on = true;
    if (frame.option < frame.options_end) {
      const Entered entered = try_option(frame);
      if (entered == Entered::kDone) return Outcome::kFound;
      if (entered == Entered::kFailed) goes_on = go_back(frames_.size());
    } else {
      conflict_ = frame.conflict;
      if (frames_.size() > raised_frames_) failed_at(frame.key) = {(frame.key ^ ceiling_key_) | 1U, conflict_};
      goes_on = go_back(frames_.size() - 1);
    }
    // Below a raised ceiling what was tried before is left out, so that nothing is proved.
    if (!goes_on) return raises > 0 ? Outcome::kLimit : Outcome::kNone;
  }
}

}  // namespace edgemem::offset_search
