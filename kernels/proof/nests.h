// The bytes that the records of each nest (see `Nesting`) take together.
#pragma once

#include <vector>

#include "proof/nesting.h"
#include "proof/records.h"
#include "proof/room.h"

namespace edgemem::proof {

//     whole     [                        )       no longer alive
//     slices      [        )                     alive, padded: they take what they cover, and what two of them share
//                      [        )                is taken once
//     taken       ==============
//
// All nests lie one after the other in one `Room`. A nest with a pinned record is none of these, because its records
// share bytes only where one lies inside the other; nor is one with a record that does not fit where it should lie.
class Nests {
 public:
  Nests(const Records& records, const Nesting& nesting);

  // Whether the record is in a nest of several.
  bool has(Index record) const { return !at_.empty() && at_[record] >= 0; }
  // Whether the two are in one nest.
  bool are_one(Index a, Index b) const { return has(a) && has(b) && nesting_.related(a, b); }
  // Of a record in a nest.
  void begin(Index record) { room_.take(at_[record], at_[record] + records_.padded(record)); }
  void end(Index record) { room_.give(at_[record], at_[record] + records_.padded(record)); }
  // Padded bytes that those which have begun, and have not ended, take together.
  Value bytes() const { return room_.taken(); }

 private:
  std::vector<Value> cuts();

  const Records& records_;
  const Nesting& nesting_;
  std::vector<Value> at_;  // where each record begins, -1 for one in no nest; empty without any
  Room room_;
};

}  // namespace edgemem::proof
