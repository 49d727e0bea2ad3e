// The bytes that the records of each nest cover together, at their fixed distances.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/common/records.h"
#include "planner/offsets/related/relations.h"

namespace edgemem::related {

//     whole     [                        )       no longer alive
//     slices      [        )                     alive
//                      [        )
//     covered     ==============
//
// The ends of all records cut the bytes of their nest into pieces, which lie one nest after the other in a tree: each
// node knows how many records cover all of it, and how many bytes below it are covered.
class Cover {
 public:
  // Of the nests with several records and without a pinned one: those with a pin share bytes only where one record lies
  // inside the other. The rows of `within` are checked, and no record lies within itself.
  Cover(const Records& records, const Relations& relations);

  // Whether the record is in such a nest; the rest is about those that are.
  bool has(Index record) const { return !root_.empty() && root_[record] != kNone; }
  bool are_one(Index a, Index b) const { return has(a) && root_[a] == root_[b]; }
  void enter(Index record) { add(record, 1); }
  void leave(Index record) { add(record, -1); }
  // Padded bytes that those cover together which have entered, and have not left.
  Value bytes() const { return nodes_.empty() ? 0 : nodes_[1].bytes; }

 private:
  struct Node {
    int covers = 0;
    Value width = 0;
    Value bytes = 0;
  };
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void add(Index record, int times);
  void count(std::size_t at);

  std::vector<Index> root_;   // the outermost record, kNone for one in no nest; empty without any
  std::vector<Span> pieces_;  // of each record
  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace edgemem::related
