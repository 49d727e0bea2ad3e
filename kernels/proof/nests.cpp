#include "proof/nests.h"

#include <algorithm>

namespace edgemem::proof {
Nests::Nests(const Records& records, const Nesting& nesting)
    : records_(records), nesting_(nesting), room_(nesting.flat() ? std::vector<Value>{} : cuts()) {}

// Finds the places of all records, and returns where they begin and end.
std::vector<Value> Nests::cuts() {
  const std::size_t count = records_.count();
  std::vector<Index> order(count);
  for (std::size_t i = 0; i < count; ++i) order[nesting_.enter(static_cast<Index>(i))] = static_cast<Index>(i);
  std::vector<Index> outer(count, kNone);
  std::vector<Value> place(count, 0);  // counted from the outermost record, once that of the container is known
  for (const Within& row : withins(records_)) {
    outer[row.inner] = row.outer;
    place[row.inner] = row.delta;
  }
  at_.assign(count, -1);
  std::vector<Value> ends;
  Value next = 0;  // no more than the padded sizes of all so far
  for (std::size_t k = 0; k < count;) {
    const std::size_t begin = k;
    const Index end = nesting_.leave(order[k]);
    bool counts = end > begin + 1;
    for (; k < end; ++k) {
      const Index record = order[k];
      counts = counts && !records_.is_pinned(record);
      if (!counts || k == begin) continue;
      const Value room = records_.size[outer[record]] - records_.size[record];
      counts = place[record] >= 0 && place[record] <= room;
      if (counts) place[record] += place[outer[record]];
    }
    if (!counts) continue;
    const Value base = next;
    for (std::size_t m = begin; m < end; ++m) {
      at_[order[m]] = base + place[order[m]];
      ends.push_back(at_[order[m]]);
      ends.push_back(at_[order[m]] + records_.padded(order[m]));
      next = std::max(next, ends.back());
    }
  }
  return ends;
}

}  // namespace edgemem::proof
