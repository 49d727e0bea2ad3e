// What is wrong with a plan, as rows of numbers.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "proof/records.h"

namespace edgemem::proof {

// As in edgemem/proof/faults.py.
enum class Cause : Value {
  kNegativeOffset = 1,
  kMisaligned,
  kOutsideArena,
  kNoSuchRegion,
  kArenaTooLarge,
  kNotWherePinned,
  kInReserved,
  kNotWithin,
  kOverlap,
  kNoSuchObject,
  kEmptyObject,
  kObjectTooSmall,
  kObjectTooLarge,
  kObjectShared,
};

// `a` and `b` are records, regions or objects, -1 for none; `op` an operator, -1 for none. What `number` holds depends
// on the cause.
struct Fault {
  Cause cause;
  Value a = -1;
  Value b = -1;
  Value op = -1;
  Value number[3] = {0, 0, 0};
};

// The first `kMost` faults; more of the same say nothing new.
class Faults {
 public:
  static constexpr std::size_t kMost = 100;
  static constexpr std::size_t kColumns = 7;

  bool full() const { return rows_.size() == kMost * kColumns; }
  void add(const Fault& fault) {
    if (full()) return;
    rows_.insert(rows_.end(), {static_cast<Value>(fault.cause), fault.a, fault.b, fault.op});
    rows_.insert(rows_.end(), fault.number, fault.number + 3);
  }
  // Row by row.
  std::vector<Value> take() && { return std::move(rows_); }

 private:
  std::vector<Value> rows_;
};

}  // namespace edgemem::proof
