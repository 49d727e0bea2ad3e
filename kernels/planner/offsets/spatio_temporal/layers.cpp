#include "planner/offsets/spatio_temporal/layers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace edgemem::spatio_temporal {

namespace {

struct Layer {
  std::int64_t base;                            // bytes
  std::map<std::int64_t, std::int64_t> in_use;  // first to last operator

  bool is_free(const Request& request) const {
    const auto later = in_use.upper_bound(request.last);
    return later == in_use.begin() || std::prev(later)->second < request.first;
  }
};

template <typename Less>
std::vector<std::size_t> sorted(std::size_t count, Less less) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

}  // namespace

std::vector<std::size_t> memory_layers(const std::vector<Request>& requests) {
  std::vector<std::size_t> layer(requests.size());
  std::set<std::pair<std::int64_t, std::int64_t>> ends;  // last operator, layer negated: the last is the one to take
  std::size_t made = 0;
  for (const std::size_t r :
       sorted(requests.size(), [&](std::size_t a, std::size_t b) { return requests[a].first < requests[b].first; })) {
    const auto later = ends.lower_bound({requests[r].first, std::numeric_limits<std::int64_t>::min()});
    if (later == ends.begin()) {
      layer[r] = made++;
    } else {
      layer[r] = static_cast<std::size_t>(-std::prev(later)->second);
      ends.erase(std::prev(later));
    }
    ends.emplace(requests[r].last, -static_cast<std::int64_t>(layer[r]));
  }
  return layer;
}

std::vector<std::int64_t> place_in_layers(const std::vector<Request>& requests, Poll& poll) {
  const std::vector<std::size_t> order = sorted(requests.size(), [&](std::size_t a, std::size_t b) {
    return std::tuple(-requests[a].size, requests[a].first) < std::tuple(-requests[b].size, requests[b].first);
  });
  std::vector<std::int64_t> offsets(requests.size(), 0);
  std::vector<Layer> layers;
  std::int64_t top = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    const std::int64_t size = requests[order[begin]].size;
    std::vector<std::size_t> left;
    std::vector<Request> left_requests;
    for (; begin < order.size() && requests[order[begin]].size == size; ++begin) {
      poll.step();
      const Request& request = requests[order[begin]];
      const auto found =
          std::find_if(layers.begin(), layers.end(), [&](const Layer& layer) { return layer.is_free(request); });
      if (found == layers.end()) {
        left.push_back(order[begin]);
        left_requests.push_back(request);
        continue;
      }
      found->in_use.emplace(request.first, request.last);
      offsets[order[begin]] = found->base;
    }
    const std::size_t below = layers.size();
    const std::vector<std::size_t> layer = memory_layers(left_requests);
    for (std::size_t k = 0; k < left.size(); ++k) {
      for (; layers.size() <= below + layer[k]; top += size) layers.push_back({top, {}});
      Layer& own = layers[below + layer[k]];
      own.in_use.emplace(left_requests[k].first, left_requests[k].last);
      offsets[left[k]] = own.base;
    }
  }
  return offsets;
}

}  // namespace edgemem::spatio_temporal
