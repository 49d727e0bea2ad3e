#include "planner/schedule/hills.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace edgemem::schedule {
namespace {

// Steps of a profile that end no higher than they begin, seen in the direction of the merge.
struct Hill {
  std::int64_t height;  // above its beginning
  std::size_t steps;
};

// Hills of the steps from the place `from` on to the place `to`, whichever comes first; place k lies before step k.
std::vector<Hill> hills(const Profile& profile, std::size_t from, std::size_t to) {
  const auto level = [&](std::size_t place) { return place == 0 ? 0 : profile.after[place - 1]; };
  const bool forward = from < to;
  std::vector<Hill> found;
  while (from != to) {
    const std::int64_t begin = level(from);
    Hill hill{0, 0};
    do {
      const std::size_t step = forward ? from++ : --from;
      hill.height = std::max(hill.height, profile.during[step] - begin);
      ++hill.steps;
    } while (from != to && level(from) > begin);
    found.push_back(hill);
  }
  return found;
}

// Takes the lowest of the next hills again and again. Of equal ones the first, or if `last` the last profile's.
std::vector<std::size_t> take_lowest(const std::vector<std::vector<Hill>>& all, bool last) {
  using Next = std::tuple<std::int64_t, std::size_t, std::size_t>;  // height, rank of the profile, number of the hill
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  const auto rank = [&](std::size_t profile) { return last ? all.size() - 1 - profile : profile; };
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (!all[p].empty()) queue.emplace(all[p].front().height, rank(p), 0);
  }
  std::vector<std::size_t> taken;
  while (!queue.empty()) {
    const auto [height, ranked, number] = queue.top();
    queue.pop();
    const std::size_t p = rank(ranked);
    taken.insert(taken.end(), all[p][number].steps, p);
    if (number + 1 < all[p].size()) queue.emplace(all[p][number + 1].height, ranked, number + 1);
  }
  return taken;
}

}  // namespace

std::vector<std::size_t> merge(const std::vector<Profile>& profiles) {
  std::vector<std::vector<Hill>> down;
  std::vector<std::vector<Hill>> up;
  for (const Profile& profile : profiles) {
    std::size_t lowest = 0;
    std::int64_t level = 0;
    for (std::size_t k = 0; k < profile.after.size(); ++k) {
      if (profile.after[k] >= level) continue;
      level = profile.after[k];
      lowest = k + 1;
    }
    down.push_back(hills(profile, 0, lowest));
    up.push_back(hills(profile, profile.after.size(), lowest));
  }
  std::vector<std::size_t> merged = take_lowest(down, false);
  const std::vector<std::size_t> backwards = take_lowest(up, true);
  merged.insert(merged.end(), backwards.rbegin(), backwards.rend());
  return merged;
}

}  // namespace edgemem::schedule
