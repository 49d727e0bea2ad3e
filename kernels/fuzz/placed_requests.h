// A plan's events and places, read from a case and right by construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fuzz/bytes.h"

// Requests that take the first place where nothing is alive, between frees at random. Gives the bytes of all places.
inline std::int64_t place_requests(Bytes& input, std::size_t count, std::vector<std::int64_t>& events,
                                   std::vector<std::int64_t>& offsets) {
  struct Placed {
    std::int64_t request;
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Placed> alive;
  std::int64_t top = 0;
  events.clear();
  offsets.clear();
  for (std::size_t k = 0; k < count; ++k) {
    if (!alive.empty() && input.below(2) == 0) {
      const auto freed = alive.begin() + static_cast<std::ptrdiff_t>(input.below(alive.size()));
      events.push_back(-freed->request - 1);
      alive.erase(freed);
      continue;
    }
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(input.octet());
    Placed made{static_cast<std::int64_t>(offsets.size()), input.below(5) == 0 ? -1 : 0, 0};
    for (bool moved = made.begin >= 0; moved;) {
      moved = false;
      for (const Placed& other : alive) {
        if (other.begin >= 0 && other.begin < made.begin + bytes && made.begin < other.end) {
          made.begin = (other.end + 63) / 64 * 64;
          moved = true;
        }
      }
    }
    if (made.begin >= 0) top = std::max(top, made.begin + bytes);
    made.end = made.begin + bytes;
    events.push_back(bytes);
    offsets.push_back(made.begin);
    alive.push_back(made);
  }
  return top;
}
