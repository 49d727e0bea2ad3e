// The state of the plateau search and its moves: what is counted, placed, lifted and undone.
#include <algorithm>
#include <numeric>

#include "planner/offsets/search/plateau.h"

namespace edgemem::offset_search {

void PlateauSearch::set(std::int64_t& cell, std::int64_t value) {
  if (cell == value) return;
  log_.push_back({static_cast<std::int32_t>(&cell - cells_.data()), cell});
  cell = value;
}

bool PlateauSearch::better(std::int32_t a, std::int32_t b) const {
  if (a == kNone || b == kNone) return b == kNone;
  const std::int64_t score_a = cells_[5 * sections_ + at(a)];
  const std::int64_t score_b = cells_[5 * sections_ + at(b)];
  if (score_a != score_b) return score_a < score_b;
  const std::int64_t height_a = cells_[at(a)];
  const std::int64_t height_b = cells_[at(b)];
  return height_a != height_b ? height_a < height_b : a < b;
}

void PlateauSearch::rise(std::int32_t leaf) {
  std::size_t node = leaves_ + at(leaf);
  winner_[node] = score(leaf) == kInfinite ? kNone : leaf;
  for (node /= 2; node > 0; node /= 2) {
    const std::int32_t a = winner_[2 * node];
    const std::int32_t b = winner_[2 * node + 1];
    const std::int32_t won = better(b, a) && b != kNone ? b : a;
    if (winner_[node] == won && won != leaf) return;
    winner_[node] = won;
  }
}

void PlateauSearch::set_score(std::int32_t line, std::int64_t value) {
  // The height, which breaks ties, may have changed while the score did not.
  if (score(line) == kInfinite && value == kInfinite) return;
  log_.push_back({static_cast<std::int32_t>(5 * sections_ + at(line)), score(line)});
  score(line) = value;
  rise(line);
}

void PlateauSearch::undo(std::size_t mark) {
  while (log_.size() > mark) {
    budget_->pass();
    const Change change = log_.back();
    log_.pop_back();
    if (change.slot < 0) {
      const std::int32_t piece = ~change.slot;
      link(piece);
      for (std::int32_t b = part_.begin[at(piece)] + 1; b < part_.end[at(piece)]; ++b) ++crossing_[at(b)];
      continue;
    }
    cells_[at(change.slot)] = change.value;
    // All cells of a line are restored before a choice is made; its height may come after its score, so both rise.
    const std::size_t column = at(change.slot) / sections_;
    if (column == 5 || column == 0) rise(static_cast<std::int32_t>(at(change.slot) % sections_));
  }
}

void PlateauSearch::unlink(std::int32_t piece) {
  ++placed_;
  next_begin_[at(prev_begin_[at(piece)])] = next_begin_[at(piece)];
  prev_begin_[at(next_begin_[at(piece)])] = prev_begin_[at(piece)];
  next_end_[at(prev_end_[at(piece)])] = next_end_[at(piece)];
  prev_end_[at(next_end_[at(piece)])] = prev_end_[at(piece)];
}

void PlateauSearch::link(std::int32_t piece) {
  --placed_;
  next_begin_[at(prev_begin_[at(piece)])] = piece;
  prev_begin_[at(next_begin_[at(piece)])] = piece;
  next_end_[at(prev_end_[at(piece)])] = piece;
  prev_end_[at(next_end_[at(piece)])] = piece;
}

void PlateauSearch::reset(std::span<const double> weight) {
  const std::int32_t count = part_.count();
  const auto sections = static_cast<std::int32_t>(sections_);
  budget_->pass(count);
  weight_.assign(weight.begin(), weight.end());
  budget_->pass(count);
  std::fill(cells_.begin(), cells_.end(), 0);
  budget_->pass(count);
  std::fill(crossing_.begin(), crossing_.end(), 0);
  std::fill(winner_.begin(), winner_.end(), kNone);
  if (holes_ != nullptr)
    std::copy(holes_->room.begin(), holes_->room.end(),
              cells_.end() - static_cast<std::ptrdiff_t>(holes_->room.size()));
  log_.clear();
  placed_ = 0;
  frames_.clear();
  options_.clear();
  rests_.clear();
  std::int64_t beyond = 0;  // reserved units above the ceiling
  for (const Interval& range : part_.reserved) beyond += range.begin >= ceiling_.units ? range.end - range.begin : 0;
  for (std::int32_t t = 0; t < sections; ++t) {
    budget_->pass();
    room_[at(t)] = ceiling_.over(part_.least_tail[at(t)]) - part_.load[at(t)] + beyond;
    score(t) = kInfinite;
  }
  const auto head = [&](std::vector<std::int32_t>& next, std::vector<std::int32_t>& prev, std::int32_t heads) {
    for (std::int32_t h = count; h < count + heads; ++h) next[at(h)] = prev[at(h)] = h;
  };
  head(next_begin_, prev_begin_, sections);
  head(next_end_, prev_end_, sections + 1);
  const auto append = [](std::vector<std::int32_t>& next, std::vector<std::int32_t>& prev, std::int32_t h,
                         std::int32_t piece) {
    next[at(piece)] = h;
    prev[at(piece)] = prev[at(h)];
    next[at(prev[at(h)])] = piece;
    prev[at(h)] = piece;
  };
  for (std::int32_t i = 0; i < count; ++i) {
    budget_->pass();
    if (pinned_ && part_.pinned[at(i)] >= ceiling_.units) continue;
    append(next_begin_, prev_begin_, count + part_.begin[at(i)], i);
    append(next_end_, prev_end_, count + part_.end[at(i)], i);
    if (part_.end[at(i)] - part_.begin[at(i)] > 1) {
      ++crossing_[at(part_.begin[at(i)] + 1)];
      --crossing_[at(part_.end[at(i)])];
    }
  }
  std::partial_sum(crossing_.begin(), crossing_.end(), crossing_.begin());
}

bool PlateauSearch::fail(std::int32_t section, Region conflict) {
  failures_[at(section)] += 1.0;
  conflict_ = conflict;
  return false;
}

// What an end of the line depends on: its sections and the walls beside them.
PlateauSearch::Region PlateauSearch::around(std::int32_t line) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  return {line - (crossed(line) ? 1 : 0), end + (crossed(end) ? 1 : 0)};
}

// The lowest height at which something could rest on the section at that end, if nothing is placed there now. What
// comes first either crosses the wall on that side, or begins (ends) here: then it crosses the other wall, or rests on
// a piece that lies on the plateau or crosses the other wall.
std::int64_t PlateauSearch::next_height(std::int32_t line, bool right) {
  const Walls walls = walls_of(line);
  const std::int32_t heads = part_.count();
  std::int64_t to = right ? walls.right : walls.left;
  if (right) {
    std::int32_t reach = walls.end;  // how far what ends here goes to the left
    for (std::int32_t i = next_end_[at(heads + walls.end)]; i < heads; i = next_end_[at(i)]) {
      reach = std::min(reach, part_.begin[at(i)]);
    }
    if (reach < line) to = std::min(to, walls.left);
    for (std::int32_t t = line; t < walls.end - 1 && to > walls.base + 1; ++t) {
      for (std::int32_t i = next_begin_[at(heads + t)]; i < heads && part_.end[at(i)] < walls.end;
           i = next_begin_[at(i)]) {
        if (part_.end[at(i)] > reach) to = std::min(to, walls.base + part_.size[at(i)]);
      }
    }
    for (std::int32_t t = std::max(line, reach) + 1; t < walls.end && to > walls.left; ++t) {
      for (std::int32_t i = next_end_[at(heads + t)]; i < heads && part_.begin[at(i)] < line; i = next_end_[at(i)]) {
        to = std::min(to, walls.left + part_.size[at(i)]);
      }
    }
  } else {
    std::int32_t reach = line;
    for (std::int32_t i = next_begin_[at(heads + line)]; i < heads; i = next_begin_[at(i)]) {
      reach = std::max(reach, part_.end[at(i)]);
    }
    if (reach > walls.end) to = std::min(to, walls.right);
    const std::int32_t last = std::min(reach, walls.end);
    for (std::int32_t t = line + 1; t < last && to > walls.base + 1; ++t) {
      for (std::int32_t i = next_begin_[at(heads + t)]; i < heads; i = next_begin_[at(i)]) {
        const bool crosses = part_.end[at(i)] > walls.end;
        if (crosses && walls.right >= to) break;
        to = std::min(to, (crosses ? walls.right : walls.base) + part_.size[at(i)]);
      }
    }
  }
  return to;
}

// Where a lift of that end leads, or kInfinite if the section cannot spare as much.
std::int64_t PlateauSearch::lift_to(std::int32_t line, bool right) {
  if (holes_ != nullptr) return kInfinite;
  const std::int64_t most = height(line) + spare(right ? static_cast<std::int32_t>(line_end(line)) - 1 : line);
  if (most == height(line)) return kInfinite;
  const std::int64_t to = pinned_ ? next_height_pinned(line, right) : next_height(line, right);
  return to > most ? kInfinite : to;
}

// False when an end of the line has no option left.
bool PlateauSearch::rescore(std::int32_t line) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  const std::int64_t base = height(line);
  const bool plateau = (!crossed(line) || height(static_cast<std::int32_t>(line_begin(line - 1))) > base) &&
                       (!crossed(end) || height(end) > base);
  if (!plateau) {
    set_score(line, kInfinite);
    return true;
  }
  std::int64_t least = kInfinite;
  for (const bool right : {false, true}) {
    const std::int32_t section = right ? end - 1 : line;
    const std::int64_t options = options_at(line, right);
    if (options == 0) return fail(section, around(line));
    double value = options == 1 ? 0.0 : 1024.0 * static_cast<double>(options);
    if (style_.flush_first) value /= static_cast<double>(1 << (2 * flush_));
    if (style_.learned) value /= failures_[at(section)];
    least = std::min(least, 2 * static_cast<std::int64_t>(value) + (right ? 1 : 0));
  }
  set_score(line, least);
  return true;
}

// Joins a line with neighbours of its height; returns where it begins now.
std::int32_t PlateauSearch::merge(std::int32_t line) {
  auto end = static_cast<std::int32_t>(line_end(line));
  if (crossed(end) && height(end) == height(line)) {
    set_score(end, kInfinite);
    end = static_cast<std::int32_t>(line_end(end));
  }
  if (crossed(line)) {
    const auto left = static_cast<std::int32_t>(line_begin(line - 1));
    if (height(left) == height(line)) {
      set_score(line, kInfinite);
      line = left;
    }
  }
  set(line_end(line), end);
  set(line_begin(end - 1), line);
  return line;
}

// Makes a line of its own begin at `begin` within `line`; returns it.
std::int32_t PlateauSearch::cut_line(std::int32_t line, std::int32_t begin) {
  if (begin == line) return line;
  const std::int64_t end = line_end(line);
  set(line_end(line), begin);
  set(line_begin(begin - 1), line);
  set(height(begin), height(line));
  set(line_end(begin), end);
  set(line_begin(static_cast<std::int32_t>(end) - 1), begin);
  return begin;
}

std::uint64_t PlateauSearch::lift_key(std::int32_t t) {
  if (waste(t) == 0) return 0;
  return splitmix64(splitmix64(at(t)) ^
                    (2 * static_cast<std::uint64_t>(waste(t)) + static_cast<std::uint64_t>(lifted(t))));
}

std::uint64_t PlateauSearch::hole_key(std::int32_t i) {
  return splitmix64(splitmix64(sections_ + at(i)) ^ static_cast<std::uint64_t>(hole_room(i)));
}

// Places a piece on the line; false when that leaves an end without options.
bool PlateauSearch::place(std::int32_t piece, std::int32_t line) {
  const std::int32_t begin = part_.begin[at(piece)];
  const std::int32_t end = part_.end[at(piece)];
  const std::int64_t base = height(line);
  offset_[at(piece)] = base;
  unlink(piece);
  log_.push_back({~piece, 0});
  key_ -= name_[at(piece)];
  cuts_.clear();
  for (std::int32_t b = begin + 1; b < end; ++b) {
    if (--crossing_[at(b)] == 0) cuts_.push_back(b);
  }
  support(begin, end);
  if (part_.is_pinned(piece)) {
    for (std::int32_t t = begin; t < end; ++t) set(pins_placed(t), pins_placed(t) + 1);
  }
  return raise_range(line, begin, end, base + part_.size[at(piece)]);
}

// Leaves a hole on the line; false when that leaves an end without options.
bool PlateauSearch::waste_hole(const Option& hole, std::int32_t line) {
  const std::int32_t begin = holes_->boundary[at(hole.from)];
  const std::int32_t end = holes_->boundary[at(hole.to)];
  for (std::int32_t i = hole.from; i < hole.to; ++i) {
    key_ -= hole_key(i);
    set(hole_room(i), hole_room(i) - hole.size);
    key_ += hole_key(i);
  }
  cuts_.clear();
  support(begin, end);
  return raise_range(line, begin, end, height(line) + hole.size);
}

// What is there now holds what comes next.
void PlateauSearch::support(std::int32_t begin, std::int32_t end) {
  for (std::int32_t t = begin; t < end; ++t) {
    if (lifted(t) == 0) continue;
    key_ -= lift_key(t);
    set(lifted(t), 0);
    key_ += lift_key(t);
  }
}

// Raises sections of the line, and cuts them where `cuts_` says; false when that leaves an end without options.
bool PlateauSearch::raise_range(std::int32_t line, std::int32_t begin, std::int32_t end, std::int64_t to) {
  const bool left_rest = begin > line;
  const bool right_rest = end < line_end(line);
  std::int32_t raised = cut_line(line, begin);
  if (right_rest) cut_line(raised, end);
  set(height(raised), to);
  for (auto cut = cuts_.rbegin(); cut != cuts_.rend(); ++cut) cut_line(raised, *cut);
  // The outer pieces of what was raised may join their neighbours.
  const std::int32_t last = merge(cuts_.empty() ? raised : cuts_.back());
  std::int32_t first = last;
  if (!cuts_.empty()) first = merge(raised);
  if (left_rest && !rescore(line)) return false;
  if (right_rest && !rescore(end)) return false;
  // A line of one section that nothing crosses is stacked without a choice.
  const auto sound = [&](std::int32_t l) {
    const auto e = static_cast<std::int32_t>(line_end(l));
    if (e - l == 1 && !crossed(l) && !crossed(e) && settled(l)) {
      set_score(l, kInfinite);
      return true;
    }
    return rescore(l);
  };
  if (!sound(first)) return false;
  for (const std::int32_t cut : cuts_) {
    if (!sound(cut)) return false;
  }
  if (!left_rest && crossed(first) && !rescore(static_cast<std::int32_t>(line_begin(first - 1)))) return false;
  const auto after = static_cast<std::int32_t>(line_end(last));
  return right_rest || !crossed(after) || rescore(after);
}

// Lifts the section at an end of the line; false when that leaves an end without options.
bool PlateauSearch::lift(std::int32_t line, bool right) {
  const auto end = static_cast<std::int32_t>(line_end(line));
  const std::int32_t section = right ? end - 1 : line;
  const std::int64_t to = lift_to(line, right);
  cuts_.clear();
  key_ -= lift_key(section);
  set(waste(section), waste(section) + (to - height(line)));
  set(lifted(section), 1);
  key_ += lift_key(section);
  std::int32_t rest = kNone;
  if (end - line > 1) {
    rest = right ? line : line + 1;
    cut_line(line, right ? section : line + 1);
  }
  set(height(section), to);
  const std::int32_t raised = merge(section);
  if (rest != kNone && !rescore(rest)) return false;
  if (!rescore(raised)) return false;
  if (crossed(raised)) {
    const auto left = static_cast<std::int32_t>(line_begin(raised - 1));
    if (left != rest && !rescore(left)) return false;
  }
  const auto after = static_cast<std::int32_t>(line_end(raised));
  return !crossed(after) || after == rest || rescore(after);
}

// Places all that is left in a section that nothing crosses, the least tail last.
bool PlateauSearch::stack(std::int32_t section) {
  const std::int32_t heads = part_.count();
  if (lid(section) != kInfinite) return true;  // all that is left is where it is pinned
  std::int64_t base = height(section);
  std::int32_t top = kNone;
  for (std::int32_t i = next_begin_[at(heads + section)]; i < heads; i = next_begin_[at(i)]) {
    if (top == kNone || part_.tail[at(i)] < part_.tail[at(top)]) top = i;
  }
  if (top == kNone) return true;
  for (std::int32_t i = next_begin_[at(heads + section)]; i < heads; i = next_begin_[at(i)]) {
    if (i == top) continue;
    offset_[at(i)] = base;
    base += part_.size[at(i)];
    unlink(i);
    log_.push_back({~i, 0});
  }
  offset_[at(top)] = base;
  base += part_.size[at(top)];
  unlink(top);
  log_.push_back({~top, 0});
  return base <= ceiling_.over(part_.tail[at(top)]) || fail(section, {section, section + 1});
}

}  // namespace edgemem::offset_search
