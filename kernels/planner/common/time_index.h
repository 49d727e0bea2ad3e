// An index of placed records by the time they are alive: finds the free address ranges during an interval of operators.
//
// Time is cut into blocks with a few interval ends each. A segment tree over the blocks keeps two unions of address
// ranges per node: of all records alive somewhere below it, and of those alive everywhere below it but not everywhere
// below its parent. Records that begin or end inside a block stand in lists of that block; since most intervals asked
// for pass through one edge of the block, the union of what is alive at that edge is kept too, and only the list of the
// other kind need be read. Two records are compared only if both begin or end in one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/interval_set.h"

namespace edgemem {

class TimeIndex {
 public:
  struct Lifetime {  // operators, both inclusive
    std::int64_t first;
    std::int64_t last;
  };

  // An empty index for the records with these lifetimes, which are named by their position in the vector. They are
  // best given in the order in which they will be placed.
  explicit TimeIndex(std::vector<Lifetime> lifetimes);

  // Leaves in `free` what no inserted record alive together with `record` occupies.
  void cut_occupied(std::size_t record, FreeRanges& free);
  void insert(std::size_t record, Interval bytes);
  // Loads what the two calls above will read, because they visit memory at random and would mostly wait for it.
  void prefetch(std::size_t record) const;

 private:
  struct Node {
    IntervalSet somewhere;
    IntervalSet everywhere;
  };
  struct List {  // a part of uses_, sorted by address
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  struct Block {
    std::int64_t first;  // its first operator
    std::int64_t last;   // the last operator at which a record begins or ends
    List beginning;      // records that begin inside it
    List ending;         // records that end inside it; those that do both stand in both
    IntervalSet at_first;
    IntervalSet at_last;
  };
  struct Span {  // the blocks in which a lifetime begins and ends
    std::uint32_t low;
    std::uint32_t high;
  };
  struct Use {
    Lifetime alive;
    Interval bytes;
  };

  void make_blocks();
  void make_lists();
  std::uint32_t block_of(std::int64_t op) const;
  static bool covers(const Lifetime& alive, const Block& block);
  void cut_inside_block(const Lifetime& alive, std::size_t block, FreeRanges& free);
  void cut_list(const Lifetime& alive, List list, FreeRanges& free);
  void insert_into_list(List& list, const Use& use);
  void insert_into_block(const Lifetime& alive, std::size_t block, Interval bytes);
  // Calls on_path for the nodes over the span's two ends (leaves apart), on_inside for the fewest nodes that make up
  // the blocks between them; from the leaves up.
  template <typename OnPath, typename OnInside>
  void walk(Span span, OnPath on_path, OnInside on_inside);

  std::vector<Lifetime> lifetimes_;
  std::vector<Span> spans_;
  std::vector<std::int64_t> firsts_;  // of the blocks
  std::vector<Block> blocks_;
  std::vector<Use> uses_;
  std::vector<Node> nodes_;  // a heap: block b is node leaves_ + b, the parent of i is i / 2
  std::size_t leaves_ = 1;
  unsigned levels_ = 0;  // from the leaves up, those on which a record can cover a node

  std::vector<const IntervalSet*> whole_;  // scratch of cut_occupied
  std::vector<Interval> alive_together_;   // scratch of cut_list
};

}  // namespace edgemem
