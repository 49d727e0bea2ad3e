#include "planner/offsets/related/cover.h"

#include <algorithm>
#include <bit>

namespace edgemem::related {

Cover::Cover(const Records& records, const Relations& relations) {
  const Column within = relations.within;
  if (within.empty()) return;
  const std::size_t count = records.count();
  std::vector<Index> outer(count, kNone);
  std::vector<Value> at(count, 0);  // in the container, and then in the outermost one
  for (std::size_t k = 0; k < within.size(); k += 3) {
    const auto inner = static_cast<std::size_t>(within[k]);
    outer[inner] = static_cast<Index>(within[k + 1]);
    at[inner] = within[k + 2];
  }
  root_.assign(count, kNone);
  std::vector<char> is_pinned(count, 0);
  std::vector<Index> chain;
  for (std::size_t i = 0; i < count; ++i) {
    auto record = static_cast<Index>(i);
    for (; root_[record] == kNone && outer[record] != kNone; record = outer[record]) chain.push_back(record);
    if (root_[record] == kNone) root_[record] = record;
    for (; !chain.empty(); chain.pop_back()) {
      const Index inner = chain.back();
      root_[inner] = root_[outer[inner]];
      if (outer[inner] != root_[inner]) at[inner] += at[outer[inner]];
    }
    if (records.is_pinned(i)) is_pinned[root_[i]] = 1;
  }
  // One nest after the other: what is outermost holds all the others.
  std::vector<Value> base(count, 0);
  Value next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    base[i] = next;
    if (root_[i] == i && is_pinned[i] == 0) next += records.padded(i);
  }
  std::vector<char> is_whole(count, 0);
  for (std::size_t k = 0; k < within.size(); k += 3) is_whole[root_[static_cast<std::size_t>(within[k])]] = 1;
  std::vector<Value> cuts{0};
  for (std::size_t i = 0; i < count; ++i) {
    if (is_pinned[root_[i]] != 0 || is_whole[root_[i]] == 0) root_[i] = kNone;
    if (root_[i] == kNone) continue;
    at[i] += base[root_[i]];
    cuts.push_back(at[i]);
    cuts.push_back(at[i] + records.padded(i));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const auto piece = [&](Value byte) {
    return static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), byte) - cuts.begin());
  };
  pieces_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (root_[i] != kNone) pieces_[i] = {piece(at[i]), piece(at[i] + records.padded(i))};
  }
  leaves_ = std::bit_ceil(cuts.size());
  nodes_.resize(2 * leaves_);
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) nodes_[leaves_ + k].width = cuts[k + 1] - cuts[k];
  for (std::size_t k = leaves_; --k > 0;) nodes_[k].width = nodes_[2 * k].width + nodes_[2 * k + 1].width;
}

void Cover::add(Index record, int times) {
  const auto [begin, end] = pieces_[record];
  if (begin == end) return;
  const auto change = [&](std::size_t node) {
    nodes_[node].covers += times;
    count(node);
  };
  std::size_t low = begin + leaves_;
  std::size_t high = end + leaves_;
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1) change(low++);
    if (high % 2 == 1) change(--high);
  }
  for (std::size_t node = begin + leaves_; node /= 2;) count(node);
  for (std::size_t node = end - 1 + leaves_; node /= 2;) count(node);
}

void Cover::count(std::size_t at) {
  Node& node = nodes_[at];
  const Value below = at < leaves_ ? nodes_[2 * at].bytes + nodes_[2 * at + 1].bytes : 0;
  node.bytes = node.covers > 0 ? node.width : below;
}

}  // namespace edgemem::related
