// The moves of the plateau search, and how well the plateaus that they leave can be filled.
#include <algorithm>

#include "planner/offsets/search/plateau.h"

namespace edgemem::offset_search {

namespace {

constexpr double kScoreOfAnOption = 1024.0;  // so that what is divided still tells numbers of options apart

}  // namespace

bool PlateauSearch::fail(std::int32_t section, Region conflict) {
  failures_[at(section)] += 1.0;
  conflict_ = conflict;
  return false;
}

// What the options of the line's ends depend on: its sections and the walls beside them.
PlateauSearch::Region PlateauSearch::with_walls(std::int32_t line) const {
  const std::int32_t end = state_.line_end(line);
  return {line - (state_.is_crossed(line) ? 1 : 0), end + (state_.is_crossed(end) ? 1 : 0)};
}

// Scores a line by the better of its ends, if it is a plateau. False when an end has no option left.
bool PlateauSearch::rescore(std::int32_t line) {
  const Walls walls = state_.walls_of(line);
  if (walls.left <= walls.base || walls.right <= walls.base) {
    state_.set_score(line, kInfinite);
    return true;
  }
  std::int64_t least = kInfinite;
  for (const bool right : {false, true}) {
    const std::int32_t section = right ? walls.end - 1 : line;
    const PlateauOptions::Count count = find_options_.count(walls, right);
    if (count.options == 0) return fail(section, with_walls(line));
    const double options = techniques_.fewest_options_first ? static_cast<double>(count.options) : 1.0;
    double value = count.options == 1 ? 0.0 : kScoreOfAnOption * options;
    if (ordering_.prefer_wall_contact) value /= static_cast<double>(1 << (2 * count.contacts));
    if (ordering_.learn_from_failures) value /= failures_[at(section)];
    least = std::min(least, 2 * static_cast<std::int64_t>(value) + (right ? 1 : 0));
  }
  state_.set_score(line, least);
  return true;
}

// A line of one section that nothing crosses is stacked without a choice.
bool PlateauSearch::rescore_unless_stacked(std::int32_t line) {
  const std::int32_t end = state_.line_end(line);
  if (end - line == 1 && !state_.is_crossed(line) && !state_.is_crossed(end) && state_.needs_no_choice(line)) {
    state_.set_score(line, kInfinite);
    return true;
  }
  return rescore(line);
}

bool PlateauSearch::place(std::int32_t piece, std::int32_t line) {
  const std::int32_t begin = part_.begin[at(piece)];
  const std::int32_t end = part_.end[at(piece)];
  const std::int64_t base = state_.height(line);
  offset_[at(piece)] = base;
  cuts_.clear();
  state_.take(piece, cuts_);
  key_ -= state_.piece_key(piece);
  clear_lifted(begin, end);
  if (part_.is_pinned(piece)) {
    for (std::int32_t t = begin; t < end; ++t) state_.count_placed_pin(t);
  }
  return raise_range(line, begin, end, base + part_.size[at(piece)]);
}

bool PlateauSearch::leave_hole(const Option& hole, std::int32_t line) {
  const std::int32_t begin = holes_->boundary[at(hole.from)];
  const std::int32_t end = holes_->boundary[at(hole.to)];
  for (std::int32_t i = hole.from; i < hole.to; ++i) {
    key_ -= state_.hole_key(i);
    state_.use_hole_room(i, hole.size);
    key_ += state_.hole_key(i);
  }
  cuts_.clear();
  clear_lifted(begin, end);
  return raise_range(line, begin, end, state_.height(line) + hole.size);
}

// What was placed there now can hold what comes next.
void PlateauSearch::clear_lifted(std::int32_t begin, std::int32_t end) {
  for (std::int32_t t = begin; t < end; ++t) {
    if (!state_.is_lifted(t)) continue;
    key_ -= state_.waste_key(t);
    state_.set_lifted(t, false);
    key_ += state_.waste_key(t);
  }
}

// Raises sections of the line, and cuts them where `cuts_` says.
bool PlateauSearch::raise_range(std::int32_t line, std::int32_t begin, std::int32_t end, std::int64_t to) {
  const bool left_rest = begin > line;
  const bool right_rest = end < state_.line_end(line);
  const std::int32_t raised = state_.cut_line(line, begin);
  if (right_rest) state_.cut_line(raised, end);
  state_.set_height(raised, to);
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) state_.cut_line(raised, *cut);
  // The outer pieces of what was raised may join their neighbours.
  const std::int32_t last = state_.merge(cuts_.empty() ? raised : cuts_.back());
  const std::int32_t first = cuts_.empty() ? last : state_.merge(raised);
  if (left_rest && !rescore(line)) return false;
  if (right_rest && !rescore(end)) return false;
  if (!rescore_unless_stacked(first)) return false;
  for (const std::int32_t cut : cuts_) {
    if (!rescore_unless_stacked(cut)) return false;
  }
  if (!left_rest && state_.is_crossed(first) && !rescore(state_.line_ending_with(first - 1))) return false;
  const std::int32_t after = state_.line_end(last);
  return right_rest || !state_.is_crossed(after) || rescore(after);
}

// Lifts the section at an end of the line.
bool PlateauSearch::lift(std::int32_t line, bool right) {
  const Walls walls = state_.walls_of(line);
  const std::int32_t section = right ? walls.end - 1 : line;
  const std::int64_t to = find_options_.lift_height(walls, right);
  cuts_.clear();
  key_ -= state_.waste_key(section);
  state_.add_waste(section, to - walls.base);
  state_.set_lifted(section, true);
  key_ += state_.waste_key(section);
  std::int32_t rest = kNone;
  if (walls.end - line > 1) {
    rest = right ? line : line + 1;
    state_.cut_line(line, right ? section : line + 1);
  }
  state_.set_height(section, to);
  const std::int32_t raised = state_.merge(section);
  if (rest != kNone && !rescore(rest)) return false;
  if (!rescore(raised)) return false;
  if (state_.is_crossed(raised)) {
    const std::int32_t left = state_.line_ending_with(raised - 1);
    if (left != rest && !rescore(left)) return false;
  }
  const std::int32_t after = state_.line_end(raised);
  return !state_.is_crossed(after) || after == rest || rescore(after);
}

// Places all that is left in a section that nothing crosses, the least tail on top. False when that ends above the
// ceiling.
bool PlateauSearch::stack(std::int32_t section) {
  if (state_.next_pin(section) != kInfinite) return true;  // all that is left is pinned, and has its offset
  std::int64_t base = state_.height(section);
  std::int32_t top = kNone;
  for (const std::int32_t i : state_.beginning_in(section)) {
    if (top == kNone || part_.tail[at(i)] < part_.tail[at(top)]) top = i;
  }
  if (top == kNone) return true;
  const auto put = [&](std::int32_t i) {
    offset_[at(i)] = base;
    base += part_.size[at(i)];
    state_.take(i, cuts_);  // crosses nothing, so that nothing is cut
  };
  for (const std::int32_t i : state_.beginning_in(section)) {
    if (i != top) put(i);
  }
  put(top);
  return base <= state_.ceiling().over(part_.tail[at(top)]) || fail(section, {section, section + 1});
}

}  // namespace edgemem::offset_search
