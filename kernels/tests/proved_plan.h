// Records and a plan of them that a test owns, for the proof.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "proof/offsets.h"

using Values = std::vector<edgemem::proof::Value>;

struct ProvedPlan {
  using Value = edgemem::proof::Value;

  Values first, last, size, offsets, overlap, within;
  Value alignment = 1;

  std::size_t count() const { return first.size(); }
  edgemem::proof::Records records() const { return {first, last, size, alignment, {}, {}, overlap, within}; }
  Value arena() const {
    Value top = 0;
    for (std::size_t i = 0; i < count(); ++i) top = std::max(top, size[i] > 0 ? offsets[i] + size[i] : 0);
    return top;
  }
  void add(Value f, Value l, Value s, Value offset) {
    first.push_back(f);
    last.push_back(l);
    size.push_back(s);
    offsets.push_back(offset);
  }
  Values faults(Value arena) const { return edgemem::proof::find_offset_faults(records(), {offsets, {&arena, 1}}); }
};
