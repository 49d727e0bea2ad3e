// What can be done at an end of a plateau.
#include <algorithm>

#include "planner/offsets/search/plateau.h"

namespace edgemem::offset_search {

PlateauSearch::Walls PlateauSearch::walls_of(std::int32_t line) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  return {line, end, height(line), crossed(line) ? height(static_cast<std::int32_t>(line_begin(line - 1))) : kInfinite,
          crossed(end) ? height(end) : kInfinite};
}

// How well something would fit: whether it fills the plateau, and whether it ends level with a wall beside it.
int PlateauSearch::flush(std::int32_t begin, std::int32_t end, std::int64_t size, const Walls& walls) const {
  const std::int64_t top = walls.base + size;
  const bool at_left = begin == walls.begin;
  const bool at_right = end == walls.end;
  return int{at_left && at_right} + int{at_left && top == walls.left} + int{at_right && top == walls.right};
}

int PlateauSearch::flush(const Option& option, const Walls& walls) const {
  if (option.piece == kHole) {
    return flush(holes_->boundary[at(option.from)], holes_->boundary[at(option.to)], option.size, walls);
  }
  const std::size_t i = at(option.piece);
  return flush(part_.begin[i], part_.end[i], part_.size[i], walls);
}

// As visit_pieces, where pieces are pinned.
template <typename Visit>
void PlateauSearch::visit_under_lids(std::int32_t line, bool right, const Visit& visit) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  const std::int64_t base = height(line);
  const std::int32_t heads = part_.count();
  std::int32_t support = right ? end - 1 : line;
  while (support >= line && support < end && lifted(support) != 0) support += right ? -1 : 1;
  std::int32_t reached = right ? end : line;  // the sections from that end to here
  std::int64_t least_lid = kInfinite;         // have this
  std::int32_t previous = kNone;
  const auto consider = [&](std::int32_t i) {
    const std::int64_t top = base + part_.size[at(i)];
    if (top > ceiling_.over(part_.tail[at(i)])) return;
    if (part_.is_pinned(i)) {
      if (part_.pinned[at(i)] == base) visit(i);
      return;
    }
    if (right ? part_.begin[at(i)] > support : part_.end[at(i)] <= support) return;
    if (right) {
      while (reached > part_.begin[at(i)]) least_lid = std::min(least_lid, lid(--reached));
    } else {
      while (reached < part_.end[at(i)]) least_lid = std::min(least_lid, lid(reached++));
    }
    if (top > least_lid) return;
    if (previous == kNone || name_[at(i)] != name_[at(previous)]) visit(i);
    previous = i;
  };
  if (right) {
    for (std::int32_t i = prev_end_[at(heads + end)]; i < heads && part_.begin[at(i)] >= line; i = prev_end_[at(i)]) {
      consider(i);
    }
  } else {
    for (std::int32_t i = next_begin_[at(heads + line)]; i < heads && part_.end[at(i)] <= end; i = next_begin_[at(i)]) {
      consider(i);
    }
  }
}

// The different pieces that can be placed at that end.
template <typename Visit>
void PlateauSearch::visit_pieces(std::int32_t line, bool right, const Visit& visit) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  const std::int64_t base = height(line);
  const std::int32_t heads = part_.count();
  if (pinned_) return visit_under_lids(line, right, visit);
  // The nearest section where something can rest.
  std::int32_t support = right ? end - 1 : line;
  while (support >= line && support < end && lifted(support) != 0) support += right ? -1 : 1;
  std::int32_t previous = kNone;
  const auto consider = [&](std::int32_t i) {
    if (base + part_.size[at(i)] > ceiling_.over(part_.tail[at(i)])) return;
    if (previous == kNone || name_[at(i)] != name_[at(previous)]) visit(i);
    previous = i;
  };
  if (right) {
    for (std::int32_t i = prev_end_[at(heads + end)]; i < heads && part_.begin[at(i)] >= line; i = prev_end_[at(i)]) {
      if (part_.begin[at(i)] <= support) consider(i);
    }
  } else {
    for (std::int32_t i = next_begin_[at(heads + line)]; i < heads && part_.end[at(i)] <= end; i = next_begin_[at(i)]) {
      if (part_.end[at(i)] > support) consider(i);
    }
  }
}

// The holes that can begin (end) at that end: as high as what is left to begin there or to end at the other boundary,
// or level with a wall.
template <typename Visit>
void PlateauSearch::visit_holes(const Walls& walls, bool right, const Visit& visit) {
  if (holes_ == nullptr) return;
  const std::int32_t here = holes_->place[at(right ? walls.end : walls.begin)];
  if (here < 0) return;
  const auto change = [&](std::int32_t i) {
    const bool first = i == 0 || holes_->group_end[at(i) - 1] != holes_->group_end[at(i)];
    return hole_room(i) - (first ? 0 : hole_room(i - 1));
  };
  std::int64_t room = kInfinite;
  const auto consider = [&](std::int32_t from, std::int32_t to) {
    const bool at_left = holes_->boundary[at(from)] == walls.begin;
    const bool at_right = holes_->boundary[at(to)] == walls.end;
    const std::int64_t sizes[] = {change(from), -change(to),
                                  at_left && walls.left != kInfinite ? walls.left - walls.base : 0,
                                  at_right && walls.right != kInfinite ? walls.right - walls.base : 0};
    for (std::size_t k = 0; k < 4; ++k) {
      if (sizes[k] <= 0 || sizes[k] > room || std::find(sizes, sizes + k, sizes[k]) != sizes + k) continue;
      visit(Option{kHole, from, to, sizes[k]});
    }
  };
  if (right) {
    for (std::int32_t from = here - 1; from >= 0 && holes_->group_end[at(from)] == holes_->group_end[at(here)];
         --from) {
      room = std::min(room, hole_room(from));
      if (room <= 0 || holes_->boundary[at(from)] < walls.begin) break;
      consider(from, here);
    }
  } else {
    for (std::int32_t to = here + 1; to < holes_->group_end[at(here)]; ++to) {
      room = std::min(room, hole_room(to - 1));
      if (room <= 0 || holes_->boundary[at(to)] > walls.end) break;
      consider(here, to);
    }
  }
}

// How many options that end has; `flush_` becomes the best one's.
std::int64_t PlateauSearch::options_at(std::int32_t line, bool right) {
  const Walls walls = walls_of(line);
  flush_ = 0;
  std::int64_t count = 0;
  const auto add = [&](const Option& option) {
    ++count;
    if (style_.flush_first) flush_ = std::max(flush_, flush(option, walls));
  };
  visit_pieces(line, right, [&](std::int32_t i) { add({i, 0, 0, 0}); });
  visit_holes(walls, right, add);
  return count + (lift_to(line, right) != kInfinite ? 1 : 0);
}

// Appends the options of that end, those to be tried first in front.
void PlateauSearch::list_options(std::int32_t line, bool right) {
  const Walls walls = walls_of(line);
  const auto begin = static_cast<std::ptrdiff_t>(options_.size());
  visit_pieces(line, right, [&](std::int32_t i) { options_.push_back({i, 0, 0, 0}); });
  visit_holes(walls, right, [&](const Option& hole) { options_.push_back(hole); });
  budget_->sort(options_.begin() + begin, options_.end(), [&](const Option& a, const Option& b) {
    if (style_.flush_first) {
      const int flush_a = flush(a, walls);
      const int flush_b = flush(b, walls);
      if (flush_a != flush_b) return flush_a > flush_b;
    }
    if (a.piece == kHole || b.piece == kHole) {
      if (a.piece != b.piece) return b.piece == kHole;
      return a.to - a.from != b.to - b.from ? a.to - a.from > b.to - b.from : a.size > b.size;
    }
    const double weight_a = weight_[at(a.piece)];
    const double weight_b = weight_[at(b.piece)];
    return weight_a != weight_b ? weight_a > weight_b : a.piece < b.piece;
  });
  if (lift_to(line, right) != kInfinite) options_.push_back({kLift, 0, 0, 0});
}

}  // namespace edgemem::offset_search
