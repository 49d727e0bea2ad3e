#include "planner/offsets/spatio_temporal/phases.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace edgemem::spatio_temporal {

namespace {

constexpr std::int64_t kLeastSwing = 16;  // of the maximum, as a divisor

struct Load {
  std::int64_t op;
  std::int64_t bytes;
};

// The bytes alive from each operator on at which they change.
std::vector<Load> loads(const Records& records) {
  std::map<std::int64_t, std::int64_t> changes;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (records.size[i] == 0) continue;
    changes[records.first[i]] += records.padded(i);
    changes[records.last[i] + 1] -= records.padded(i);
  }
  std::vector<Load> found;
  std::int64_t bytes = 0;
  for (const auto& [op, change] : changes) found.push_back({op, bytes += change});
  return found;
}

// The operators after which a phase begins.
std::vector<std::int64_t> turns(const std::vector<Load>& loads) {
  std::int64_t most = 0;
  for (const Load& load : loads) most = std::max(most, load.bytes);
  const std::int64_t least = std::max<std::int64_t>(1, most / kLeastSwing);
  std::vector<std::int64_t> found;
  Load extreme{0, 0};
  bool is_rising = true;
  for (const Load& load : loads) {
    const std::int64_t beyond = is_rising ? load.bytes - extreme.bytes : extreme.bytes - load.bytes;
    if (beyond >= 0) {
      extreme = load;
    } else if (-beyond >= least) {
      found.push_back(extreme.op);
      extreme = load;
      is_rising = !is_rising;
    }
  }
  return found;
}

}  // namespace

std::vector<std::int64_t> phases_by_load(const Records& records) {
  const std::vector<std::int64_t> ends = turns(loads(records));
  const auto phase = [&](std::int64_t op) { return std::lower_bound(ends.begin(), ends.end(), op) - ends.begin(); };
  std::vector<std::int64_t> phases;
  phases.reserve(2 * records.count());
  for (std::size_t i = 0; i < records.count(); ++i) {
    phases.push_back(phase(records.first[i]));
    phases.push_back(phase(records.last[i]));
  }
  return phases;
}

}  // namespace edgemem::spatio_temporal
