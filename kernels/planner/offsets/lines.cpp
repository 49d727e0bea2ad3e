#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "planner/offsets/lifetime_tree.h"
#include "planner/offsets/placement.h"

namespace edgemem {

namespace {

constexpr std::size_t kNoLine = static_cast<std::size_t>(-1);

// The skyline: offset lines from left to right, each over the operators begin..end (inclusive).
class OffsetLines {
 public:
  struct Line {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t height;
    std::size_t left = kNoLine;
    std::size_t right = kNoLine;
    bool gone = false;
  };

  OffsetLines(std::int64_t begin, std::int64_t end) { push({begin, end, 0}); }

  const Line& at(std::size_t id) const { return lines_[id]; }

  // The lowest line, the leftmost of equals.
  std::size_t lowest() {
    for (;; queue_.pop()) {
      const auto& [height, begin, id] = queue_.top();
      const Line& line = lines_[id];
      if (!line.gone && line.height == height && line.begin == begin) return id;
    }
  }

  // Lifts a line to the height of its lowest neighbour, and joins it with the neighbours of that height. A line across
  // all of time has none, but is never lifted: every record that is left fits on it.
  void lift(std::size_t id) {
    const std::size_t left = lines_[id].left;
    const std::size_t right = lines_[id].right;
    if (left == kNoLine) {
      lines_[id].height = lines_[right].height;
    } else if (right == kNoLine) {
      lines_[id].height = lines_[left].height;
    } else {
      lines_[id].height = std::min(lines_[left].height, lines_[right].height);
    }
    merge_and_queue(id);
  }

  // Raises first..last, which lie within line `id`, by `height`.
  void raise(std::size_t id, std::int64_t first, std::int64_t last, std::int64_t height) {
    if (lines_[id].begin < first) {
      Line rest{lines_[id].begin, first - 1, lines_[id].height, lines_[id].left, id};
      const std::size_t added = push(rest);
      if (rest.left != kNoLine) lines_[rest.left].right = added;
      lines_[id].left = added;
      lines_[id].begin = first;
    }
    if (last < lines_[id].end) {
      Line rest{last + 1, lines_[id].end, lines_[id].height, id, lines_[id].right};
      const std::size_t added = push(rest);
      if (rest.right != kNoLine) lines_[rest.right].left = added;
      lines_[id].right = added;
      lines_[id].end = last;
    }
    lines_[id].height += height;
    merge_and_queue(id);
  }

 private:
  using Entry = std::tuple<std::int64_t, std::int64_t, std::size_t>;  // height, begin, line

  std::size_t push(const Line& line) {
    lines_.push_back(line);
    queue_.emplace(line.height, line.begin, lines_.size() - 1);
    return lines_.size() - 1;
  }

  void merge_and_queue(std::size_t id) {
    Line& line = lines_[id];
    if (line.left != kNoLine && lines_[line.left].height == line.height) {
      Line& left = lines_[line.left];
      left.gone = true;
      line.begin = left.begin;
      line.left = left.left;
      if (line.left != kNoLine) lines_[line.left].right = id;
    }
    if (line.right != kNoLine && lines_[line.right].height == line.height) {
      Line& right = lines_[line.right];
      right.gone = true;
      line.end = right.end;
      line.right = right.right;
      if (line.right != kNoLine) lines_[line.right].left = id;
    }
    queue_.emplace(line.height, line.begin, id);
  }

  std::vector<Line> lines_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;  // with entries that are out of date
};

}  // namespace

std::vector<std::int64_t> place_on_offset_lines(const Records& records, Column preference, Poll poll) {
  check(records);
  check_permutation(preference, records.count());
  std::vector<std::int64_t> offsets(records.count(), 0);
  std::vector<std::size_t> ids;  // by rank
  std::vector<LifetimeTree::Point> points;
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const std::int64_t id : preference) {
    const auto i = static_cast<std::size_t>(id);
    if (records.size[i] == 0) continue;
    points.push_back({records.first[i], records.last[i], static_cast<std::int32_t>(ids.size())});
    ids.push_back(i);
    begin = std::min(begin, records.first[i]);
    end = std::max(end, records.last[i]);
  }
  if (ids.empty()) return offsets;
  LifetimeTree left(std::move(points));
  OffsetLines lines(begin, end);
  for (std::size_t placed = 0; placed < ids.size();) {
    poll.step();
    const std::size_t line = lines.lowest();
    const std::int32_t rank = left.best_within(lines.at(line).begin, lines.at(line).end);
    if (rank == LifetimeTree::kNone) {
      lines.lift(line);
      continue;
    }
    const std::size_t i = ids[static_cast<std::size_t>(rank)];
    offsets[i] = lines.at(line).height;
    lines.raise(line, records.first[i], records.last[i], records.padded(i));
    left.remove(rank);
    ++placed;
  }
  return offsets;
}

}  // namespace edgemem
