// What lies in an arena now, by place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "arena/blocks.h"
#include "replay/intervals.h"

namespace edgemem {

// A block in use: [begin, end) in bytes, where `begin` is its key.
struct LiveRange {
  int64_t end = 0;
  Origin origin;
  bool is_shared = false;    // another stream uses it, too
  bool is_withheld = false;  // freed, but other streams may still use it
};

// Ranges that never overlap. Not safe for several threads at once.
class LiveRanges {
 public:
  using Map = std::map<int64_t, LiveRange>;

  // Adds a range if nothing lies in it. False, and nothing is added, if something does or memory is short.
  bool add(int64_t begin, const LiveRange& range) noexcept;

  // The range that begins there, or end().
  Map::iterator find(int64_t begin) noexcept { return ranges_.find(begin); }
  Map::iterator begin() noexcept { return ranges_.begin(); }
  Map::iterator end() noexcept { return ranges_.end(); }
  bool empty() const noexcept { return ranges_.empty(); }
  std::size_t size() const noexcept { return ranges_.size(); }

  // Takes a range out; the one after it.
  Map::iterator remove(Map::iterator range) noexcept;

  // The lowest multiple of `alignment` in the smallest gap of `space` where nothing lies and `bytes` fit; the lowest of
  // equal gaps; -1 if there is none (STWeaver, equation 6). The intervals ascend and are disjoint.
  int64_t best_fit(std::span<const Interval> space, int64_t bytes, int64_t alignment) const noexcept;

  // Calls `visit(begin, end)` for each gap below `size`.
  template <typename Visit>
  void visit_gaps(int64_t size, Visit visit) const {
    int64_t reached = 0;
    for (const auto& [begin, range] : ranges_) {
      if (begin > reached) {
        visit(reached, begin);
      }
      reached = range.end;
    }
    if (size > reached) {
      visit(reached, size);
    }
  }

 private:
  // Nodes of the map that are not in use: in a steady loop, no request takes memory from the system.
  static constexpr std::size_t kMostSpare = 1024;

  Map ranges_;
  std::vector<Map::node_type> spare_;
};

}  // namespace edgemem
