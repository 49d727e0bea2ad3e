#include "planner/offsets/spatio_temporal/fusion.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace edgemem::spatio_temporal {

namespace {

struct Rectangle {
  std::int64_t begin, end;   // bytes, half-open
  std::int64_t first, last;  // operators, inclusive
};

// The records of a plan as an address rises past them.
class Above {
 public:
  Above(const Records& records, const LocalPlan& plan) {
    for (std::size_t k = 0; k < plan.records.size(); ++k) {
      const std::size_t i = plan.records[k];
      all_.push_back({plan.offsets[k], plan.offsets[k] + records.padded(i), records.first[i], records.last[i]});
    }
    std::sort(all_.begin(), all_.end(), [](const Rectangle& a, const Rectangle& b) {
      return std::tuple(a.begin, a.first) < std::tuple(b.begin, b.first);
    });
  }

  std::int64_t lowest() const { return all_.front().begin; }

  void rise_to(std::int64_t address) {
    for (; next_ < all_.size() && all_[next_].begin <= address; ++next_) at_.push_back(all_[next_]);
    std::erase_if(at_, [&](const Rectangle& r) { return r.end <= address; });
    address_ = address;
  }

  // The lowest address of a record above this one, or `top`.
  std::int64_t next(std::int64_t top) const { return next_ < all_.size() ? all_[next_].begin : top; }

  bool is_free(std::int64_t size, std::int64_t first, std::int64_t last) const {
    const auto meets = [&](const Rectangle& r) { return r.first <= last && first <= r.last; };
    if (std::any_of(at_.begin(), at_.end(), meets)) return false;
    for (std::size_t k = next_; k < all_.size() && all_[k].begin < address_ + size; ++k) {
      if (meets(all_[k])) return false;
    }
    return true;
  }

 private:
  std::vector<Rectangle> all_;  // by address
  std::vector<Rectangle> at_;   // those that hold the address
  std::size_t next_ = 0;        // the first one above it
  std::int64_t address_ = 0;
};

}  // namespace

LocalPlan insert(const Records& records, const LocalPlan& fixed, const LocalPlan& added) {
  LocalPlan both = fixed;
  std::vector<std::size_t> left = added.records;
  std::sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(records.first[a], a) < std::tuple(records.first[b], b);
  });
  Above above(records, fixed);
  for (std::int64_t address = above.lowest(); !left.empty();) {
    above.rise_to(address);
    const auto fits = std::find_if(left.begin(), left.end(), [&](std::size_t i) {
      return above.is_free(records.padded(i), records.first[i], records.last[i]);
    });
    if (fits == left.end()) {
      address = above.next(fixed.size);
      continue;
    }
    both.records.push_back(*fits);
    both.offsets.push_back(address);
    address += records.padded(*fits);
    left.erase(fits);
  }
  measure(records, both);
  return both;
}

std::vector<LocalPlan> fuse(const Records& records, std::vector<LocalPlan> groups, Rules rules, std::int64_t most_work,
                            Poll& poll) {
  std::map<std::int64_t, std::vector<std::size_t>> beginning;  // groups by first phase
  for (std::size_t g = 0; g < groups.size(); ++g) beginning[groups[g].first_phase].push_back(g);
  std::vector<bool> is_gone(groups.size(), false);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (bool is_tried_again = !is_gone[g]; is_tried_again;) {
      is_tried_again = false;
      const auto next = beginning.find(groups[g].last_phase);
      if (next == beginning.end()) break;
      for (const std::size_t h : next->second) {
        if (h == g || is_gone[h]) continue;
        poll.step();
        const bool is_larger = groups[g].size >= groups[h].size;
        const LocalPlan& large = is_larger ? groups[g] : groups[h];
        const LocalPlan& small = is_larger ? groups[h] : groups[g];
        const auto work = static_cast<std::int64_t>((large.records.size() + small.records.size()) *
                                                    (rules == Rules::kPaper ? small.records.size() : 64));
        if (work > most_work) continue;
        most_work -= work;
        LocalPlan both =
            rules == Rules::kPaper ? insert(records, large, small) : insert_best_fit(records, large, small);
        // The products have equal numerators: what decides is the size of the boxes.
        if (!(both.box() < large.box() + small.box())) continue;
        both.first_phase = groups[g].first_phase;
        both.last_phase = groups[h].last_phase;
        is_tried_again = both.last_phase != groups[g].last_phase;
        groups[g] = std::move(both);
        is_gone[h] = true;
        if (is_tried_again) break;
      }
    }
  }
  std::size_t kept = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!is_gone[g] && kept != g) groups[kept] = std::move(groups[g]);
    kept += is_gone[g] ? 0 : 1;
  }
  groups.resize(kept);
  return groups;
}

}  // namespace edgemem::spatio_temporal
