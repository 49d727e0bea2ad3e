#include "planner/offsets/search/plateau_state.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/common/splitmix64.h"

namespace edgemem::offset_search {

PlateauState::PlateauState(const Part& part, const Holes* holes, const Techniques& techniques)
    : part_(part),
      holes_(holes),
      has_pins_(!part.pinned.empty()),
      techniques_(techniques),
      sections_(at(part.sections())) {}

void PlateauState::allocate(Budget& budget) {
  const auto count = at(part_.count());
  const auto make = [&](auto& column, std::size_t size, auto value) {
    budget.pass(static_cast<std::int64_t>(size));
    column.assign(size, value);
  };
  make(crossing_, sections_ + 1, 0);
  make(next_begin_, count + sections_, 0);
  make(prev_begin_, count + sections_, 0);
  make(next_end_, count + sections_ + 1, 0);
  make(prev_end_, count + sections_ + 1, 0);
  leaves_ = std::bit_ceil(sections_);
  make(winner_, 2 * leaves_, kNone);
  make(piece_key_, count, std::uint64_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    const bool same = techniques_.skip_identical_pieces && i > 0 &&
                      part_.identical(static_cast<std::int32_t>(i) - 1, static_cast<std::int32_t>(i));
    piece_key_[i] = same ? piece_key_[i - 1] : splitmix64(i);
    budget.pass();
  }
  make(room_, sections_, std::int64_t{0});
  if (has_pins_) pins_ = PinsBySection(part_, budget);
  const std::size_t pin_cells = has_pins_ ? sections_ : 0;
  const std::size_t hole_cells = holes_ != nullptr ? holes_->boundary.size() : 0;
  make(cells_, 6 * sections_ + pin_cells + hole_cells, std::int64_t{0});
  Cells rest = cells_;
  const auto column = [&](std::size_t size) {
    const Cells cut = rest.first(size);
    rest = rest.subspan(size);
    return cut;
  };
  height_ = column(sections_);
  score_ = column(sections_);
  line_end_ = column(sections_);
  line_begin_ = column(sections_);
  waste_ = column(sections_);
  lifted_ = column(sections_);
  pins_placed_ = column(pin_cells);
  hole_room_ = column(hole_cells);
}

bool PlateauState::reset(const Ceiling& ceiling, Budget& budget) {
  ceiling_ = ceiling;
  budget.pass(part_.count());
  std::fill(cells_.begin(), cells_.end(), 0);
  budget.pass(part_.count());
  std::fill(winner_.begin(), winner_.end(), kNone);
  if (holes_ != nullptr) std::copy(holes_->room.begin(), holes_->room.end(), hole_room_.begin());
  std::fill(score_.begin(), score_.end(), kInfinite);
  log_.clear();
  placed_ = 0;
  std::int64_t beyond = 0;  // reserved units above the ceiling, which the load counts
  for (const Interval& range : part_.reserved) beyond += range.begin >= ceiling.units ? range.end - range.begin : 0;
  for (std::size_t t = 0; t < sections_; ++t) {
    budget.pass();
    room_[t] = ceiling.over(part_.least_tail[t]) - part_.load[t] + beyond;
  }
  budget.pass(part_.count());
  link_all();
  if (!has_pins_ || !techniques_.sides_of_pins) return true;
  if (ranges_.empty() || ranged_.units != ceiling.units || ranged_.tail != ceiling.tail) {
    std::optional<std::vector<OffsetRange>> ranges = offset_ranges(part_, pins_, ceiling, room_, budget);
    if (!ranges) return false;
    ranges_ = std::move(*ranges);
    ranged_ = ceiling;
  }
  has_ranges_ = true;
  return true;
}

// Makes the lists of all pieces, without those that are pinned from the ceiling upwards, and counts crossings.
void PlateauState::link_all() {
  const std::int32_t count = part_.count();
  std::fill(crossing_.begin(), crossing_.end(), 0);
  const auto make_heads = [&](std::vector<std::int32_t>& next, std::vector<std::int32_t>& prev) {
    for (std::size_t head = at(count); head < next.size(); ++head) {
      next[head] = prev[head] = static_cast<std::int32_t>(head);
    }
  };
  make_heads(next_begin_, prev_begin_);
  make_heads(next_end_, prev_end_);
  const auto append = [](std::vector<std::int32_t>& next, std::vector<std::int32_t>& prev, std::int32_t head,
                         std::int32_t piece) {
    next[at(piece)] = head;
    prev[at(piece)] = prev[at(head)];
    next[at(prev[at(head)])] = piece;
    prev[at(head)] = piece;
  };
  for (std::int32_t i = 0; i < count; ++i) {
    if (has_pins_ && part_.pinned[at(i)] >= ceiling_.units) continue;
    append(next_begin_, prev_begin_, count + part_.begin[at(i)], i);
    append(next_end_, prev_end_, count + part_.end[at(i)], i);
    if (part_.end[at(i)] - part_.begin[at(i)] > 1) {
      ++crossing_[at(part_.begin[at(i)] + 1)];
      --crossing_[at(part_.end[at(i)])];
    }
  }
  std::partial_sum(crossing_.begin(), crossing_.end(), crossing_.begin());
}

void PlateauState::raise_ceiling(std::int64_t units) {
  ceiling_.units += units;
  has_ranges_ = false;
  for (std::int64_t& room : room_) room += units;
}

void PlateauState::start_with_one_line() {
  line_end_.front() = static_cast<std::int64_t>(sections_);
  line_begin_.back() = 0;
}

bool PlateauState::comes_first(std::int32_t a, std::int32_t b) const {
  if (a == kNone || b == kNone) return b == kNone;
  if (score(a) != score(b)) return score(a) < score(b);
  return height(a) != height(b) ? height(a) < height(b) : a < b;
}

// Plays the line's matches of the tournament again.
void PlateauState::update_winner(std::int32_t line) {
  std::size_t node = leaves_ + at(line);
  winner_[node] = score(line) == kInfinite ? kNone : line;
  for (node /= 2; node > 0; node /= 2) {
    const std::int32_t a = winner_[2 * node];
    const std::int32_t b = winner_[2 * node + 1];
    const std::int32_t won = comes_first(b, a) && b != kNone ? b : a;
    if (winner_[node] == won && won != line) return;
    winner_[node] = won;
  }
}

std::int32_t PlateauState::best_line(std::int32_t begin, std::int32_t end) const {
  std::int32_t best = kNone;
  std::size_t low = leaves_ + at(begin);
  std::size_t high = leaves_ + at(end);
  for (; low < high; low /= 2, high /= 2) {
    if (low & 1U) {
      const std::int32_t a = winner_[low++];
      if (a != kNone && comes_first(a, best)) best = a;
    }
    if (high & 1U) {
      const std::int32_t a = winner_[--high];
      if (a != kNone && comes_first(a, best)) best = a;
    }
  }
  return best;
}

void PlateauState::set_score(std::int32_t line, std::int64_t value) {
  // The height, which breaks ties, may have changed while the score did not.
  std::int64_t& cell = score_[at(line)];
  if (cell == kInfinite && value == kInfinite) return;
  log_.push_back({static_cast<std::int32_t>(&cell - cells_.data()), cell});
  cell = value;
  update_winner(line);
}

std::int32_t PlateauState::merge(std::int32_t line) {
  std::int32_t end = line_end(line);
  if (is_crossed(end) && height(end) == height(line)) {
    set_score(end, kInfinite);
    end = line_end(end);
  }
  if (is_crossed(line)) {
    const std::int32_t left = line_ending_with(line - 1);
    if (height(left) == height(line)) {
      set_score(line, kInfinite);
      line = left;
    }
  }
  set(line_end_[at(line)], end);
  set(line_begin_[at(end - 1)], line);
  return line;
}

std::int32_t PlateauState::cut_line(std::int32_t line, std::int32_t begin) {
  if (begin == line) return line;
  const std::int32_t end = line_end(line);
  set(line_end_[at(line)], begin);
  set(line_begin_[at(begin - 1)], line);
  set(height_[at(begin)], height(line));
  set(line_end_[at(begin)], end);
  set(line_begin_[at(end - 1)], begin);
  return begin;
}

void PlateauState::take(std::int32_t piece, std::vector<std::int32_t>& cuts) {
  unlink(piece);
  log_.push_back({~piece, 0});
  for (std::int32_t b = part_.begin[at(piece)] + 1; b < part_.end[at(piece)]; ++b) {
    if (--crossing_[at(b)] == 0) cuts.push_back(b);
  }
}

void PlateauState::undo(std::size_t log_size, Budget& budget) {
  while (log_.size() > log_size) {
    budget.pass();
    const Change change = log_.back();
    log_.pop_back();
    if (change.cell < 0) {
      const std::int32_t piece = ~change.cell;
      link(piece);
      for (std::int32_t b = part_.begin[at(piece)] + 1; b < part_.end[at(piece)]; ++b) ++crossing_[at(b)];
      continue;
    }
    const std::size_t cell = at(change.cell);
    cells_[cell] = change.value;
    // All cells of a line are restored before a choice is made. Its height may come after its score, so that both
    // update the tournament.
    if (cell < 2 * sections_) update_winner(static_cast<std::int32_t>(cell < sections_ ? cell : cell - sections_));
  }
}

void PlateauState::unlink(std::int32_t piece) {
  ++placed_;
  next_begin_[at(prev_begin_[at(piece)])] = next_begin_[at(piece)];
  prev_begin_[at(next_begin_[at(piece)])] = prev_begin_[at(piece)];
  next_end_[at(prev_end_[at(piece)])] = next_end_[at(piece)];
  prev_end_[at(next_end_[at(piece)])] = prev_end_[at(piece)];
}

// Takes back the last unlink.
void PlateauState::link(std::int32_t piece) {
  --placed_;
  next_begin_[at(prev_begin_[at(piece)])] = piece;
  prev_begin_[at(next_begin_[at(piece)])] = piece;
  next_end_[at(prev_end_[at(piece)])] = piece;
  prev_end_[at(next_end_[at(piece)])] = piece;
}

bool PlateauState::needs_no_choice(std::int32_t section) const {
  if (next_pin(section) == kInfinite) return true;
  for (const std::int32_t i : beginning_in(section)) {
    if (!part_.is_pinned(i)) return false;
  }
  return true;
}

std::uint64_t PlateauState::waste_key(std::int32_t section) const {
  const auto waste = static_cast<std::uint64_t>(waste_[at(section)]);
  if (waste == 0) return 0;
  return splitmix64(splitmix64(at(section)) ^ (2 * waste + static_cast<std::uint64_t>(lifted_[at(section)])));
}

std::uint64_t PlateauState::hole_key(std::int32_t i) const {
  return splitmix64(splitmix64(sections_ + at(i)) ^ static_cast<std::uint64_t>(hole_room(i)));
}

std::uint64_t PlateauState::key_of(std::int32_t begin, std::int32_t end) const {
  std::uint64_t key = 0;
  for (std::int32_t t = begin; t < end; ++t) {
    for (const std::int32_t i : beginning_in(t)) key += piece_key(i);
    key += waste_key(t);
    if (holes_ != nullptr && holes_->index_of[at(t)] >= 0) key += hole_key(holes_->index_of[at(t)]);
  }
  return key;
}

}  // namespace edgemem::offset_search
