// How many bytes the results of one operator can have in common with the inputs that die in it.
//
//     input i       [ i        [ slice )        )       a slice that outlives its container, or an overlap with
//     result j   [ j                         )          nothing here, is in no common byte: a hole
//                <-> distance
//
// Inputs are disjoint from each other or of one nest, and so are results. A byte that two of them have counts for both,
// which only says too much. Common bytes are counted from both sides:
// - of result j, the bytes from x on, and all bytes of the inputs whose distance is less than x;
// - of input i, the bytes below x, and all bytes of the results that can reach beyond x in it, which end at
//   size[j] - distance, counted from the begin of i, at the most;
// for the best x each, and without holes.
#pragma once

#include <span>
#include <vector>

#include "planner/common/records.h"
#include "planner/offsets/related/relations.h"

namespace edgemem::related {

class Shares {
 public:
  Shares(const Records& records, Column within);

  // Bytes, padded. `rows` are overlaps of operator `op`, each pair once, distances in bytes, by (made, input);
  // `mentioned` are all records in an overlap of that operator.
  Value most(Value op, std::vector<Overlap>& rows, std::span<const Index> mentioned);

 private:
  // Another record: how many bytes it can have in common, from which byte on.
  struct Other {
    Value reach;
    Value bytes;
  };
  struct Hole {
    Value begin;
    Value end;
  };
  struct Inner {
    Index record;
    Value depth;
  };

  void find_holes(Index record, Value op);
  Value without_holes(Value begin, Value end) const;
  template <class Of>
  Value sum(const std::vector<Overlap>& rows, bool from_end, const Of& of);

  const Records& records_;
  std::vector<std::vector<Inner>> inside_;  // by container; empty if nothing lies within anything
  std::vector<char> is_mentioned_;
  std::vector<Hole> holes_;
  std::vector<Inner> todo_;
  std::vector<Other> others_;
  std::vector<Value> bytes_;  // of each record in the rows, without holes
};

}  // namespace edgemem::related
