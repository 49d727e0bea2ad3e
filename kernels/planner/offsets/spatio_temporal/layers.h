// Requests of equal size in memory layers (HomoSize groups; STWeaver, 5.1, Algorithm 1 and global planning).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/common/poll.h"

namespace edgemem::spatio_temporal {

// A record, or a group of them that is placed as one.
struct Request {
  std::int64_t first, last;  // operators, inclusive
  std::int64_t size;         // bytes, above 0
};

// Algorithm 1: the layer of each request, by the order of their making. By first operator, each goes into the layer
// whose last request ends latest among those that end before it begins (of equals the first), else into a new one.
std::vector<std::size_t> memory_layers(const std::vector<Request>& requests);

// The offset of each request, from 0. From the largest size down, the requests of one size, by first operator, go into
// the lowest layer of a larger size that is free as long as they are in use, at its bottom; the others of the size are
// put into layers of their own, on top, by `memory_layers`.
std::vector<std::int64_t> place_in_layers(const std::vector<Request>& requests, Poll& poll);

}  // namespace edgemem::spatio_temporal
