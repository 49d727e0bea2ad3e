#include "planner/offsets/search/skyline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "planner/common/index.h"

namespace edgemem::offset_search {

namespace {

constexpr std::int32_t kNoLine = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kFan = 8;

}  // namespace

Skyline::Skyline(const Part& part) : part_(part) {
  const auto sections = at(part.sections());
  std::size_t width = at(part.count());
  levels_.emplace_back(width);
  while (width > kFan) {
    width = (width + kFan - 1) / kFan;
    levels_.emplace_back(width);
  }
  piece_of_rank_.resize(at(part.count()));
  offsets_.resize(at(part.count()));
  height_.resize(sections);
  end_.resize(sections);
  begin_.resize(sections);
  spare_.resize(sections);
}

bool Skyline::run(std::span<const std::int32_t> rank, Ceiling ceiling, Budget& budget) {
  const std::int32_t count = part_.count();
  const std::int32_t sections = part_.sections();
  std::int64_t beyond = 0;  // reserved units above the ceiling, which the load counts
  if (!part_.pinned.empty()) {
    if (next_pin_.empty()) pins_ = PinsBySection(part_, budget);
    next_pin_.assign(at(sections), 0);
    const std::optional<Ceiling> reachable = ceiling_around_pins(part_, ceiling);
    if (!reachable) return false;
    ceiling = *reachable;
    for (const Interval& range : part_.reserved) beyond += range.begin >= ceiling.units ? range.end - range.begin : 0;
  }
  ceiling_ = ceiling;
  std::fill(offsets_.begin(), offsets_.end(), -1);
  for (std::size_t t = 0; t < at(sections); ++t) {
    spare_[t] = ceiling.over(part_.least_tail[t]) - part_.load[t] + beyond;
    if (spare_[t] < 0) return false;
  }
  std::int32_t left = 0;
  for (std::size_t i = 0; i < at(count); ++i) {
    budget.pass();
    piece_of_rank_[at(rank[i])] = static_cast<std::int32_t>(i);
    levels_[0][i] = {rank[i], part_.end[i]};
    if (part_.is_pinned(static_cast<std::int32_t>(i))) levels_[0][i] = {kNoLine, kNoLine};
    if (part_.pinned.empty() || part_.pinned[i] < ceiling.units) {
      ++left;
    } else {
      offsets_[i] = part_.pinned[i];
    }
  }
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    for (std::size_t k = 0; k < levels_[level].size(); ++k) {
      Node node{kNoLine, kNoLine};
      const std::size_t stop = std::min((k + 1) * kFan, levels_[level - 1].size());
      for (std::size_t c = k * kFan; c < stop; ++c) {
        node.rank = std::min(node.rank, levels_[level - 1][c].rank);
        node.end = std::min(node.end, levels_[level - 1][c].end);
      }
      levels_[level][k] = node;
    }
  }
  queue_.clear();
  height_[0] = 0;
  end_[0] = sections;
  begin_[at(sections) - 1] = 0;
  push(0, 0);
  while (left > 0) {
    if (!budget.spend(1) && budget.out_of_time()) return false;
    const std::int32_t begin = lowest();
    if (const std::int32_t pin = pin_on(begin); pin != kNoLine) {
      for (std::int32_t t = part_.begin[at(pin)]; t < part_.end[at(pin)]; ++t) ++next_pin_[at(t)];
      place(pin, begin);
      --left;
      continue;
    }
    const std::int32_t best = best_on(begin);
    if (best == kNoLine) {
      if (!lift(begin)) return false;
      continue;
    }
    const std::int32_t piece = piece_of_rank_[at(best)];
    if (height_[at(begin)] + part_.size[at(piece)] > ceiling.over(part_.tail[at(piece)])) {
      return false;
    }
    place(piece, begin);
    --left;
  }
  return true;
}

std::int64_t Skyline::lowest_pin(std::int32_t begin, std::int32_t end) const {
  std::int64_t lowest = PinsBySection::kNoPin;
  for (std::int32_t t = begin; t < end && !next_pin_.empty(); ++t) {
    lowest = std::min(lowest, pins_.offset(t, next_pin_[at(t)]));
  }
  return lowest < ceiling_.units ? lowest : PinsBySection::kNoPin;
}

std::int32_t Skyline::pin_on(std::int32_t line) const {
  const std::int32_t end = end_[at(line)];
  if (lowest_pin(line, end) != height_[at(line)]) return kNoLine;
  std::int32_t t = line;
  while (pins_.offset(t, next_pin_[at(t)]) != height_[at(line)]) ++t;
  return pins_.of(t)[static_cast<std::size_t>(next_pin_[at(t)])].piece;
}

void Skyline::consider(std::size_t piece, std::int32_t line, std::int32_t& best) const {
  const Node& node = levels_[0][piece];
  if (node.end > end_[at(line)] || node.rank >= best) return;
  const std::int64_t top = height_[at(line)] + part_.size[piece];
  if (top <= lowest_pin(part_.begin[piece], node.end)) best = node.rank;
}

std::int32_t Skyline::best_on(std::int32_t line) const {
  const std::size_t from = at(part_.first[at(line)]);
  const std::size_t to = at(part_.first[at(end_[at(line)])]);
  std::int32_t best = kNoLine;
  if (to - from <= 4 * kFan) {
    for (std::size_t i = from; i < to; ++i) consider(i, line, best);
    return best;
  }
  std::size_t level = 1;  // the lowest on which two nodes cover all that begins there
  while (level + 1 < levels_.size() && (std::size_t{1} << (3 * level)) < to - from) ++level;
  for (std::size_t k = from >> (3 * level); k <= (to - 1) >> (3 * level); ++k) descend(level, k, from, to, line, best);
  return best;
}

void Skyline::descend(std::size_t level, std::size_t index, std::size_t from, std::size_t to, std::int32_t line,
                      std::int32_t& best) const {
  const Node& node = levels_[level][index];
  if (node.rank >= best || node.end > end_[at(line)]) return;
  const std::size_t span = std::size_t{1} << (3 * level);
  if (index * span >= to || (index + 1) * span <= from) return;
  if (level == 0) return consider(index, line, best);
  const std::size_t stop = std::min((index + 1) * kFan, levels_[level - 1].size());
  for (std::size_t c = index * kFan; c < stop; ++c) descend(level - 1, c, from, to, line, best);
}

void Skyline::remove(std::int32_t piece) {
  std::size_t index = at(piece);
  levels_[0][index] = {kNoLine, kNoLine};
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    index /= kFan;
    Node node{kNoLine, kNoLine};
    const std::size_t stop = std::min((index + 1) * kFan, levels_[level - 1].size());
    for (std::size_t c = index * kFan; c < stop; ++c) {
      node.rank = std::min(node.rank, levels_[level - 1][c].rank);
      node.end = std::min(node.end, levels_[level - 1][c].end);
    }
    Node& old = levels_[level][index];
    if (old.rank == node.rank && old.end == node.end) return;
    old = node;
  }
}

void Skyline::push(std::int64_t height, std::int32_t begin) {
  queue_.emplace_back(height, begin);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

std::int32_t Skyline::lowest() {
  for (;;) {
    const auto [height, begin] = queue_.front();
    if (height_[at(begin)] == height) return begin;
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
  }
}

bool Skyline::lift(std::int32_t begin) {
  const std::int32_t end = end_[at(begin)];
  const std::int64_t from = height_[at(begin)];
  std::int64_t to = lowest_pin(begin, end);
  if (begin > 0) to = std::min(to, height_[at(begin_[at(begin) - 1])]);
  if (end < part_.sections()) to = std::min(to, height_[at(end)]);
  for (std::size_t t = at(begin); t < at(end); ++t) {
    // Where no piece is left to place, waste makes no difference.
    const bool done = from + spare_[t] == ceiling_.over(part_.least_tail[t]);
    if (!done && to - from > spare_[t]) {
      return false;
    }
    spare_[t] -= to - from;
  }
  height_[at(begin)] = to;
  merge(begin);
  return true;
}

void Skyline::place(std::int32_t piece, std::int32_t line) {
  const std::int32_t begin = part_.begin[at(piece)];
  const std::int32_t end = part_.end[at(piece)];
  const std::int32_t line_end = end_[at(line)];
  const std::int64_t height = height_[at(line)];
  offsets_[at(piece)] = height;
  remove(piece);
  if (line < begin) {
    end_[at(line)] = begin;
    begin_[at(begin) - 1] = line;
    push(height, line);
  }
  if (end < line_end) {
    height_[at(end)] = height;
    end_[at(end)] = line_end;
    begin_[at(line_end) - 1] = end;
    push(height, end);
  }
  height_[at(begin)] = height + part_.size[at(piece)];
  end_[at(begin)] = end;
  begin_[at(end) - 1] = begin;
  merge(begin);
}

void Skyline::merge(std::int32_t begin) {
  const std::int64_t height = height_[at(begin)];
  std::int32_t end = end_[at(begin)];
  if (end < part_.sections() && height_[at(end)] == height) {
    const std::int32_t next = end;
    end = end_[at(next)];
    height_[at(next)] = -1;  // puts its entry in the queue out of date
  }
  if (begin > 0) {
    const std::int32_t left = begin_[at(begin) - 1];
    if (height_[at(left)] == height) {
      height_[at(begin)] = -1;
      begin = left;
    }
  }
  end_[at(begin)] = end;
  begin_[at(end) - 1] = begin;
  push(height, begin);
}

}  // namespace edgemem::offset_search
