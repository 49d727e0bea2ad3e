// The most bytes that inputs and results of one operator can have in common.
#pragma once

#include <span>
#include <vector>

#include "proof/records.h"

namespace edgemem::proof {

// Why it holds: all inputs are alive together before their operator ends, and so are all results, so that no byte is in
// two inputs or in two results that count, unless these are of one nest, and then it may be said to be in any one of
// them. Every common byte is one of a result, at its distance from the input or
// above that. It is not in a record that lies inside one of the two, is alive, and has no overlap at this operator:
// that one is disjoint from the other of the two. So a result gives each of its bytes to one input at the most, and an
// input takes as many as it has outside of such records. The most constrained inputs choose first; which of the bytes
// they may take they take makes no difference to the others, which may take these bytes and more. The same holds with
// inputs and results exchanged; the smaller of both sums is the answer.
class CommonBytes {
 public:
  explicit CommonBytes(const Records& records);

  // Padded bytes. `pairs`: those that count, of operator `op`, each once; `mentioned`: all records in a pair of it.
  Value most(Value op, std::span<const Overlap> pairs, std::span<const Index> mentioned);

 private:
  struct Piece {
    Index record;
    Value begin;
  };
  struct Claim {
    Index taken_from;
    Value limit;  // bytes below it, or from it on
    Index taker;
  };
  struct Gap {
    Value begin;
    Value end;
  };

  void keep_apart(Index record, Value op);
  Value between(Value begin, Value end) const;
  Value taken(Value op, std::vector<Claim>& claims, bool below);

  const Records& records_;
  std::vector<std::vector<Piece>> pieces_;  // of each record; empty where nothing lies inside anything
  std::vector<bool> mentioned_;
  std::vector<Gap> apart_;  // of the record that `keep_apart` was last called for: ascending, disjoint
};

}  // namespace edgemem::proof
