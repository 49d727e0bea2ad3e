#include "planner/schedule/relaxed.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/common/index.h"

namespace edgemem::schedule {
Problem relaxed(const Problem& problem) {
  Problem made = problem;
  std::vector<Numbers> over(at(problem.count()));
  for (Id k = 0; k < problem.count(); ++k) {
    for (const Id c : problem.over[k]) {
      // A guarded class gives its memory away only if it was taken from another one.
      const Id w = problem.writer[at(c)];
      if (problem.guarded[at(c)] == 0 || (w >= 0 && !problem.over[w].empty())) over[at(k)].push_back(c);
    }
  }
  made.over = Lists("over", over, over.size(), problem.size.size());
  made.guarded.assign(made.guarded.size(), 0);
  made.lingers.assign(made.lingers.size(), 0);
  for (Id c = 0; c < problem.classes(); ++c) {
    const bool is_unread = problem.readers[c].empty() && problem.kept[at(c)] == 0;
    const Id w = problem.writer[at(c)];
    if (is_unread && problem.present[at(c)] != 0) made.kept[at(c)] = 1;
    if (!is_unread || problem.lingers[at(c)] == 0 || w < 0) continue;
    if (over[at(w)].empty() || problem.writes[w].front() != c) {
      made.kept[at(c)] = 1;
    } else {
      made.staying[at(w)] -= problem.size[at(c)];
    }
  }
  return made;
}

std::int64_t least_peak(const Problem& relaxed) {
  std::int64_t always = 0;  // alive in the whole run
  std::int64_t end = 0;     // alive after it
  for (Id c = 0; c < relaxed.classes(); ++c) {
    if (relaxed.kept[at(c)] == 0) continue;
    if (relaxed.present[at(c)] != 0) always += relaxed.size[at(c)];
    if (relaxed.present[at(c)] != 0 || relaxed.writer[at(c)] >= 0) end += relaxed.size[at(c)];
  }
  bool gives_kept = false;  // then the last step may have less than what is alive after it
  for (Id k = 0; k < relaxed.count(); ++k) {
    for (const Id c : relaxed.over[k]) gives_kept = gives_kept || relaxed.kept[at(c)] != 0;
  }
  std::int64_t least = std::max(relaxed.at_start, gives_kept ? 0 : end);
  std::int64_t entry = relaxed.count() == 0 ? 0 : std::numeric_limits<std::int64_t>::max();
  for (Id k = 0; k < relaxed.count(); ++k) {
    std::int64_t before = always;
    for (const Id c : relaxed.reads[k]) {
      const bool is_counted = relaxed.present[at(c)] != 0 && relaxed.kept[at(c)] != 0;
      if (!is_counted && relaxed.writer[at(c)] != k) before += relaxed.size[at(c)];
    }
    const std::int64_t taken = relaxed.over[k].empty() ? 0 : relaxed.size[at(relaxed.writes[k].front())];
    const std::int64_t results = relaxed.born[at(k)] + relaxed.own[at(k)] - taken;
    least = std::max(least, before + std::max(results, relaxed.early[at(k)] + relaxed.inside[at(k)]));
    if (relaxed.before[k].empty()) entry = std::min(entry, relaxed.entry[at(k)]);
  }
  // The first operator finds what nothing reads.
  return relaxed.opening == 0 ? least : std::max(least, relaxed.at_start + relaxed.opening + entry);
}

}  // namespace edgemem::schedule
