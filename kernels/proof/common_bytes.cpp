#include "proof/common_bytes.h"

#include <algorithm>
#include <tuple>

namespace edgemem::proof {

CommonBytes::CommonBytes(const Records& records) : records_(records), mentioned_(records.count()) {
  if (records.within.empty()) return;
  pieces_.resize(records.count());
  for (const Within& row : withins(records)) {
    const Value room = records.size[row.outer] - records.size[row.inner];
    if (row.delta >= 0 && row.delta <= room) pieces_[row.outer].push_back({row.inner, row.delta});
  }
}

// Notes which bytes of a record are in no other record of the operator.
void CommonBytes::keep_apart(Index record, Value op) {
  apart_.clear();
  if (pieces_.empty()) return;
  std::vector<Piece> found = pieces_[record];
  for (std::size_t k = 0; k < found.size(); ++k) {
    const auto [inner, begin] = found[k];
    if (records_.first[inner] <= op && op <= records_.last[inner] && !mentioned_[inner]) {
      apart_.push_back({begin, std::min(begin + records_.padded(inner), records_.padded(record))});
    }
    for (const Piece& piece : pieces_[inner]) found.push_back({piece.record, begin + piece.begin});
  }
  std::sort(apart_.begin(), apart_.end(), [](const Gap& a, const Gap& b) { return a.begin < b.begin; });
  Value reached = 0;
  for (Gap& gap : apart_) {
    gap.begin = std::max(gap.begin, reached);
    gap.end = std::max(gap.end, gap.begin);
    reached = gap.end;
  }
}

Value CommonBytes::between(Value begin, Value end) const {
  if (end <= begin) return 0;
  Value count = end - begin;
  for (const Gap& gap : apart_) count -= std::max<Value>(0, std::min(gap.end, end) - std::max(gap.begin, begin));
  return count;
}

// Claims on the bytes of several records, each below its limit or from its limit on.
Value CommonBytes::taken(Value op, std::vector<Claim>& claims, bool below) {
  // The least room first.
  std::sort(claims.begin(), claims.end(), [&](const Claim& a, const Claim& b) {
    const Value first = below ? a.limit : -a.limit;
    const Value second = below ? b.limit : -b.limit;
    return std::tie(a.taken_from, first, a.taker) < std::tie(b.taken_from, second, b.taker);
  });
  Value sum = 0;
  Value given = 0;
  for (std::size_t k = 0; k < claims.size(); ++k) {
    const Claim& claim = claims[k];
    if (k == 0 || claims[k - 1].taken_from != claim.taken_from) given = 0;
    keep_apart(claim.taker, op);
    const Value wanted = between(0, records_.padded(claim.taker));
    keep_apart(claim.taken_from, op);
    const Value size = records_.padded(claim.taken_from);
    const Value room = below ? between(0, std::min(size, claim.limit)) : between(std::max<Value>(0, claim.limit), size);
    const Value more = std::max<Value>(0, std::min(wanted, room - given));
    given += more;
    sum += more;
  }
  return sum;
}

Value CommonBytes::most(Value op, std::span<const Overlap> pairs, std::span<const Index> mentioned) {
  if (pairs.empty()) return 0;
  for (const Index record : mentioned) mentioned_[record] = true;
  std::vector<Claim> of_results, of_inputs;
  for (const Overlap& pair : pairs) {
    const Value made = records_.padded(pair.made);
    const Value input = records_.padded(pair.input);
    if (pair.distance >= made) continue;
    // Beyond the size of the input nothing is in common either way.
    const Value least = std::max(pair.distance, -input);
    const Value distance = (least + records_.alignment - 1) & -records_.alignment;
    of_results.push_back({pair.made, distance, pair.input});
    of_inputs.push_back({pair.input, made - distance, pair.made});
  }
  const Value most = std::min(taken(op, of_results, false), taken(op, of_inputs, true));
  for (const Index record : mentioned) mentioned_[record] = false;
  return most;
}

}  // namespace edgemem::proof
