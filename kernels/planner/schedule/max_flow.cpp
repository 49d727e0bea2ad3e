#include "planner/schedule/max_flow.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/index.h"

namespace edgemem::schedule {
void MaxFlow::reset(std::size_t nodes) {
  nodes_ = nodes;
  built_ = marked_ = false;
  given_.clear();
}

void MaxFlow::connect(Node from, Node to, std::int64_t capacity) { given_.push_back({from, to, capacity}); }

void MaxFlow::build() {
  begin_.assign(nodes_ + 2, 0);
  for (const Given& arc : given_) {
    ++begin_[at(arc.from) + 2];
    ++begin_[at(arc.to) + 2];
  }
  for (std::size_t v = 2; v < begin_.size(); ++v) begin_[v] += begin_[v - 1];
  arcs_.resize(2 * given_.size());
  for (const Given& arc : given_) {
    const std::int32_t there = begin_[at(arc.from) + 1]++;
    const std::int32_t back = begin_[at(arc.to) + 1]++;
    arcs_[at(there)] = {arc.to, back, arc.capacity};
    arcs_[at(back)] = {arc.from, there, 0};
  }
  next_.resize(nodes_);
  level_.resize(nodes_);
  built_ = true;
  work_ += static_cast<std::int64_t>(nodes_ + arcs_.size());
}

std::int64_t MaxFlow::push(Node from, Node to, std::int64_t enough) {
  if (!built_) build();
  std::int64_t pushed = 0;
  while (pushed < enough && measure(from, to)) pushed += push_along_levels(from, to, enough - pushed);
  return pushed;
}

// Finds how far every node is from the sink, up to the distance of the source. Returns whether the source is reached.
bool MaxFlow::measure(Node from, Node to) {
  std::fill(level_.begin(), level_.end(), -1);
  work_ += static_cast<std::int64_t>(nodes_);
  level_[at(to)] = 0;
  queue_.assign(1, to);
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    const Node node = queue_[k];
    if (level_[at(from)] >= 0 && level_[at(node)] >= level_[at(from)]) break;
    const std::int32_t begin = begin_[at(node)];
    const std::int32_t end = begin_[at(node) + 1];
    work_ += end - begin;
    for (std::int32_t a = begin; a < end; ++a) {
      const Arc& arc = arcs_[at(a)];
      if (level_[at(arc.to)] >= 0 || arcs_[at(arc.reverse)].left == 0) continue;
      level_[at(arc.to)] = level_[at(node)] + 1;
      queue_.push_back(arc.to);
    }
  }
  return level_[at(from)] >= 0;
}

std::int64_t MaxFlow::push_along_levels(Node from, Node to, std::int64_t enough) {
  std::copy(begin_.begin(), begin_.begin() + static_cast<std::ptrdiff_t>(nodes_), next_.begin());
  std::int64_t pushed = 0;
  path_.clear();
  Node node = from;
  for (;;) {
    if (node == to) {
      std::int64_t flow = enough - pushed;
      for (const std::int32_t a : path_) flow = std::min(flow, arcs_[at(a)].left);
      std::size_t kept = path_.size();  // how much of the path has capacity left
      for (std::size_t k = path_.size(); k-- > 0;) {
        use(path_[k], flow);
        if (arcs_[at(path_[k])].left == 0) kept = k;
      }
      work_ += static_cast<std::int64_t>(path_.size());
      pushed += flow;
      if (pushed == enough) return pushed;
      node = arcs_[at(arcs_[at(path_[kept])].reverse)].to;
      path_.resize(kept);
      continue;
    }
    std::int32_t& next = next_[at(node)];
    const std::int32_t end = begin_[at(node) + 1];
    while (next < end) {
      const Arc& arc = arcs_[at(next)];
      if (arc.left > 0 && level_[at(arc.to)] == level_[at(node)] - 1) break;
      ++next;
      ++work_;
    }
    if (next < end) {
      path_.push_back(next);
      node = arcs_[at(next)].to;
    } else if (path_.empty()) {
      return pushed;
    } else {
      level_[at(node)] = -1;  // nothing goes on from here in this round
      node = arcs_[at(arcs_[at(path_.back())].reverse)].to;
      path_.pop_back();
      ++next_[at(node)];
    }
  }
}

void MaxFlow::use(std::int32_t arc, std::int64_t flow) {
  Arc& there = arcs_[at(arc)];
  Arc& back = arcs_[at(there.reverse)];
  if (marked_) {
    changes_.push_back({arc, there.left});
    changes_.push_back({there.reverse, back.left});
  }
  there.left -= flow;
  back.left += flow;
}

void MaxFlow::mark() {
  marked_ = true;
  changes_.clear();
}

void MaxFlow::take_back() {
  for (std::size_t k = changes_.size(); k-- > 0;) arcs_[at(changes_[k].arc)].left = changes_[k].left;
  changes_.clear();
}

}  // namespace edgemem::schedule
