#include "planner/offsets/search/plateau_options.h"

#include <algorithm>

namespace edgemem::offset_search {

namespace {

constexpr std::int64_t kInfinite = PlateauState::kInfinite;
constexpr std::int32_t kNone = PlateauState::kNone;

}  // namespace

// How well something would fit: whether it fills the plateau, and whether it ends level with a wall beside it.
int PlateauOptions::contacts(std::int32_t begin, std::int32_t end, std::int64_t size, const Walls& walls) {
  const std::int64_t top = walls.base + size;
  const bool at_left = begin == walls.begin;
  const bool at_right = end == walls.end;
  return int{at_left && at_right} + int{at_left && top == walls.left} + int{at_right && top == walls.right};
}

int PlateauOptions::contacts(const Option& option, const Walls& walls) const {
  if (option.piece == Option::kHole) {
    return contacts(holes_->boundary[at(option.from)], holes_->boundary[at(option.to)], option.size, walls);
  }
  const std::size_t i = at(option.piece);
  return contacts(part_.begin[i], part_.end[i], part_.size[i], walls);
}

// The section nearest to that end on which something can rest: one that was not just lifted. Outside the plateau if
// there is none.
std::int32_t PlateauOptions::nearest_support(const Walls& walls, bool right) const {
  std::int32_t section = right ? walls.end - 1 : walls.begin;
  while (section >= walls.begin && section < walls.end && state_.is_lifted(section)) section += right ? -1 : 1;
  return section;
}

// Calls `visit` for the different pieces that can be placed at that end.
template <typename Visit>
void PlateauOptions::visit_pieces(const Walls& walls, bool right, const Visit& visit) const {
  if (has_pins_) return visit_pieces_below_pins(walls, right, visit);
  const std::int32_t support = nearest_support(walls, right);
  std::int32_t previous = kNone;
  const auto consider = [&](std::int32_t i) {
    if (!state_.fits_at(i, walls.base)) return;
    if (previous == kNone || state_.piece_key(i) != state_.piece_key(previous)) visit(i);
    previous = i;
  };
  if (right) {
    for (const std::int32_t i : state_.ending_at_backwards(walls.end)) {
      if (part_.begin[at(i)] < walls.begin) break;
      if (part_.begin[at(i)] <= support) consider(i);
    }
  } else {
    for (const std::int32_t i : state_.beginning_in(walls.begin)) {
      if (part_.end[at(i)] > walls.end) break;
      if (part_.end[at(i)] > support) consider(i);
    }
  }
}

// The same where pieces are pinned. A pinned piece needs no support, only a plateau of the height of its offset.
template <typename Visit>
void PlateauOptions::visit_pieces_below_pins(const Walls& walls, bool right, const Visit& visit) const {
  const std::int32_t support = nearest_support(walls, right);
  std::int32_t reached = right ? walls.end : walls.begin;
  std::int64_t lowest_pin = kInfinite;  // in the sections from that end to `reached`
  std::int32_t previous = kNone;
  const auto consider = [&](std::int32_t i) {
    if (!state_.fits_at(i, walls.base)) return;
    if (part_.is_pinned(i)) {
      if (part_.pinned[at(i)] == walls.base) visit(i);
      return;
    }
    if (right ? part_.begin[at(i)] > support : part_.end[at(i)] <= support) return;
    if (right) {
      while (reached > part_.begin[at(i)]) lowest_pin = std::min(lowest_pin, state_.next_pin(--reached));
    } else {
      while (reached < part_.end[at(i)]) lowest_pin = std::min(lowest_pin, state_.next_pin(reached++));
    }
    if (walls.base + part_.size[at(i)] > lowest_pin) return;
    if (previous == kNone || state_.piece_key(i) != state_.piece_key(previous)) visit(i);
    previous = i;
  };
  if (right) {
    for (const std::int32_t i : state_.ending_at_backwards(walls.end)) {
      if (part_.begin[at(i)] < walls.begin) break;
      consider(i);
    }
  } else {
    for (const std::int32_t i : state_.beginning_in(walls.begin)) {
      if (part_.end[at(i)] > walls.end) break;
      consider(i);
    }
  }
}

// Calls `visit` for the holes that can begin (end) at that end: as high as what is left to begin there or to end at the
// other boundary, or level with a wall.
template <typename Visit>
void PlateauOptions::visit_holes(const Walls& walls, bool right, const Visit& visit) const {
  if (holes_ == nullptr) return;
  const std::int32_t here = holes_->index_of[at(right ? walls.end : walls.begin)];
  if (here < 0) return;
  const auto change = [&](std::int32_t i) {
    const bool first = i == 0 || holes_->group_end[at(i) - 1] != holes_->group_end[at(i)];
    return state_.hole_room(i) - (first ? 0 : state_.hole_room(i - 1));
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
      visit(Option{Option::kHole, from, to, sizes[k]});
    }
  };
  if (right) {
    for (std::int32_t from = here - 1; from >= 0 && holes_->group_end[at(from)] == holes_->group_end[at(here)];
         --from) {
      room = std::min(room, state_.hole_room(from));
      if (room <= 0 || holes_->boundary[at(from)] < walls.begin) break;
      consider(from, here);
    }
  } else {
    for (std::int32_t to = here + 1; to < holes_->group_end[at(here)]; ++to) {
      room = std::min(room, state_.hole_room(to - 1));
      if (room <= 0 || holes_->boundary[at(to)] > walls.end) break;
      consider(here, to);
    }
  }
}

PlateauOptions::Count PlateauOptions::count(const Walls& walls, bool right) const {
  Count count;
  const auto add = [&](const Option& option) {
    ++count.options;
    if (prefer_contact_) count.contacts = std::max(count.contacts, contacts(option, walls));
  };
  visit_pieces(walls, right, [&](std::int32_t i) { add({i}); });
  visit_holes(walls, right, add);
  if (lift_height(walls, right) != kInfinite) ++count.options;
  return count;
}

void PlateauOptions::list(const Walls& walls, bool right, std::vector<Option>& options, Budget& budget) const {
  const auto begin = static_cast<std::ptrdiff_t>(options.size());
  visit_pieces(walls, right, [&](std::int32_t i) { options.push_back({i}); });
  visit_holes(walls, right, [&](const Option& hole) { options.push_back(hole); });
  budget.sort(options.begin() + begin, options.end(), [&](const Option& a, const Option& b) {
    if (prefer_contact_) {
      const int contacts_a = contacts(a, walls);
      const int contacts_b = contacts(b, walls);
      if (contacts_a != contacts_b) return contacts_a > contacts_b;
    }
    if (a.piece == Option::kHole || b.piece == Option::kHole) {
      if (a.piece != b.piece) return b.piece == Option::kHole;
      return a.to - a.from != b.to - b.from ? a.to - a.from > b.to - b.from : a.size > b.size;
    }
    const double weight_a = weight_[at(a.piece)];
    const double weight_b = weight_[at(b.piece)];
    return weight_a != weight_b ? weight_a > weight_b : a.piece < b.piece;
  });
  if (lift_height(walls, right) != kInfinite) options.push_back({Option::kLift});
}

// The lowest height at which something could rest on the leftmost section, if nothing is placed there now. What comes
// first either crosses the left wall; or it begins here: then it crosses the right wall, or rests on a piece that lies
// on the plateau or crosses the right wall.
std::int64_t PlateauOptions::support_height_left(const Walls& walls) const {
  std::int64_t to = walls.left;
  std::int32_t reach = walls.begin;  // how far what begins here goes to the right
  for (const std::int32_t i : state_.beginning_in(walls.begin)) reach = std::max(reach, part_.end[at(i)]);
  if (reach > walls.end) to = std::min(to, walls.right);
  const std::int32_t last = std::min(reach, walls.end);
  for (std::int32_t t = walls.begin + 1; t < last && to > walls.base + 1; ++t) {
    for (const std::int32_t i : state_.beginning_in(t)) {
      const bool crosses = part_.end[at(i)] > walls.end;
      if (crosses && walls.right >= to) break;
      to = std::min(to, (crosses ? walls.right : walls.base) + part_.size[at(i)]);
    }
  }
  return to;
}

// The same at the right end.
std::int64_t PlateauOptions::support_height_right(const Walls& walls) const {
  std::int64_t to = walls.right;
  std::int32_t reach = walls.end;  // how far what ends here goes to the left
  for (const std::int32_t i : state_.ending_at(walls.end)) reach = std::min(reach, part_.begin[at(i)]);
  if (reach < walls.begin) to = std::min(to, walls.left);
  for (std::int32_t t = walls.begin; t < walls.end - 1 && to > walls.base + 1; ++t) {
    for (const std::int32_t i : state_.beginning_in(t)) {
      if (part_.end[at(i)] >= walls.end) break;
      if (part_.end[at(i)] > reach) to = std::min(to, walls.base + part_.size[at(i)]);
    }
  }
  for (std::int32_t t = std::max(walls.begin, reach) + 1; t < walls.end && to > walls.left; ++t) {
    for (const std::int32_t i : state_.ending_at(t)) {
      if (part_.begin[at(i)] >= walls.begin) break;
      to = std::min(to, walls.left + part_.size[at(i)]);
    }
  }
  return to;
}

// The same where pieces are pinned. What comes first rests on a piece that is on the plateau, or on one that crosses a
// wall, or it crosses a wall itself, or it is pinned. What is beside the plateau may be pinned high above, so that a
// lift goes at most to the lowest wall.
std::int64_t PlateauOptions::support_height_around_pins(const Walls& walls, bool right) const {
  std::int64_t to = std::min({walls.left, walls.right, state_.next_pin(right ? walls.end - 1 : walls.begin)});
  if (to == walls.base) return kInfinite;
  for (std::int32_t t = right ? walls.begin : walls.begin + 1; t < walls.end && to > walls.base + 1; ++t) {
    for (const std::int32_t i : state_.beginning_in(t)) {
      if (part_.end[at(i)] > walls.end || (right && part_.end[at(i)] == walls.end)) break;
      to = std::min(to, walls.base + part_.size[at(i)]);
    }
  }
  return to;
}

std::int64_t PlateauOptions::lift_height(const Walls& walls, bool right) const {
  if (holes_ != nullptr) return kInfinite;
  const std::int64_t most = walls.base + state_.spare(right ? walls.end - 1 : walls.begin);
  if (most == walls.base) return kInfinite;
  const std::int64_t to = has_pins_ ? support_height_around_pins(walls, right)
                          : right   ? support_height_right(walls)
                                    : support_height_left(walls);
  return to > most ? kInfinite : to;
}

}  // namespace edgemem::offset_search
