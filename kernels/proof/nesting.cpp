#include "proof/nesting.h"

#include <stdexcept>

namespace edgemem::proof {

Nesting::Nesting(std::size_t count, std::span<const Within> rows) {
  if (rows.empty()) return;
  // The records inside each, as linked lists.
  std::vector<Index> outer(count, kNone), child(count, kNone), sibling(count, kNone);
  for (const Within& row : rows) {
    if (outer[row.inner] != kNone) throw std::invalid_argument("a record lies inside two others");
    outer[row.inner] = row.outer;
    sibling[row.inner] = child[row.outer];
    child[row.outer] = row.inner;
  }
  enter_.assign(count, kNone);
  leave_.assign(count, kNone);
  root_.assign(count, kNone);
  Index number = 0;
  for (std::size_t root = 0; root < count; ++root) {
    if (outer[root] != kNone) continue;
    Index at = static_cast<Index>(root);
    enter_[at] = number++;
    root_[at] = at;
    while (true) {
      if (child[at] != kNone) {
        const Index next = child[at];
        child[at] = sibling[next];
        at = next;
        enter_[at] = number++;
        root_[at] = static_cast<Index>(root);
        continue;
      }
      leave_[at] = number;
      if (at == root) break;
      at = outer[at];
    }
  }
  if (number < count) throw std::invalid_argument("a record lies inside itself");
}

}  // namespace edgemem::proof
