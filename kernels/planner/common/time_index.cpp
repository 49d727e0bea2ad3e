#include "planner/common/time_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "planner/common/builtins.h"

namespace edgemem {

namespace {

// Interval ends per block. With more of them the lists are longer, with fewer there are more unions.
constexpr std::size_t kEndsPerBlock = 256;

}  // namespace

TimeIndex::TimeIndex(std::vector<Lifetime> lifetimes) : lifetimes_(std::move(lifetimes)) {
  make_blocks();
  leaves_ = std::bit_ceil(std::max<std::size_t>(blocks_.size(), 1));
  nodes_.resize(2 * leaves_);
  spans_.reserve(lifetimes_.size());
  std::uint32_t longest = 0;
  for (const Lifetime& alive : lifetimes_) {
    spans_.push_back({block_of(alive.first), block_of(alive.last)});
    longest = std::max(longest, spans_.back().high - spans_.back().low);
  }
  levels_ = static_cast<unsigned>(std::bit_width(longest));
  make_lists();
}

// An operator with many ends gets a block of its own, because a record that touches such a block covers it: lists stay
// short even when all records begin at operator 0.
void TimeIndex::make_blocks() {
  std::vector<std::int64_t> ends;
  ends.reserve(2 * lifetimes_.size());
  for (const Lifetime& alive : lifetimes_) {
    ends.push_back(alive.first);
    ends.push_back(alive.last);
  }
  std::sort(ends.begin(), ends.end());
  std::size_t filled = kEndsPerBlock;
  for (std::size_t run = 0; run < ends.size();) {
    std::size_t next = run + 1;
    while (next < ends.size() && ends[next] == ends[run]) ++next;
    if (filled + (next - run) > kEndsPerBlock) {
      firsts_.push_back(ends[run]);
      blocks_.push_back({ends[run], ends[run], {}, {}, {}, {}});
      filled = 0;
    }
    blocks_.back().last = ends[run];
    filled += next - run;
    run = next;
  }
}

// All lists lie in one piece of memory, each with the room it will need.
void TimeIndex::make_lists() {
  for (std::size_t i = 0; i < lifetimes_.size(); ++i) {
    Block& low = blocks_[spans_[i].low];
    Block& high = blocks_[spans_[i].high];
    if (lifetimes_[i].first > low.first) ++low.beginning.end;
    if (lifetimes_[i].last < high.last) ++high.ending.end;
  }
  std::size_t total = 0;
  std::size_t longest = 0;
  const auto give_room = [&](List& list) {
    const std::size_t length = list.end;
    longest = std::max(longest, length);
    list = {total, total};
    total += length;
  };
  for (Block& block : blocks_) {
    give_room(block.beginning);
    give_room(block.ending);
  }
  uses_.resize(total);
  alive_together_.resize(longest + 1);
}

std::uint32_t TimeIndex::block_of(std::int64_t op) const {
  return static_cast<std::uint32_t>(std::upper_bound(firsts_.begin(), firsts_.end(), op) - firsts_.begin()) - 1;
}

bool TimeIndex::covers(const Lifetime& alive, const Block& block) {
  return alive.first <= block.first && alive.last >= block.last;
}

template <typename OnPath, typename OnInside>
void TimeIndex::walk(Span span, OnPath on_path, OnInside on_inside) {
  std::size_t low = leaves_ + span.low;
  std::size_t high = leaves_ + span.high;
  for (unsigned level = 0; level < levels_; ++level, low /= 2, high /= 2) {
    if (level > 0) {
      on_path(low);
      if (high != low) on_path(high);
    }
    if (high - low > 1) {
      if (low % 2 == 0) on_inside(low + 1);
      if (high % 2 == 1) on_inside(high - 1);
    }
  }
}

void TimeIndex::cut_list(const Lifetime& alive, List list, FreeRanges& free) {
  // Written without a branch: a processor cannot predict whether two records of a block are alive together.
  std::size_t count = 0;
  const std::int64_t lowest = free.lowest();
  for (std::size_t i = list.begin; i < list.end; ++i) {
    const Use& use = uses_[i];
    alive_together_[count] = use.bytes;
    count += static_cast<std::size_t>((use.alive.first <= alive.last) & (use.alive.last >= alive.first) &
                                      (use.bytes.end > lowest));
  }
  free.cut_sorted({alive_together_.data(), count});
}

void TimeIndex::cut_inside_block(const Lifetime& alive, std::size_t index, FreeRanges& free) {
  const Block& block = blocks_[index];
  const bool at_first = alive.first <= block.first;
  const bool at_last = alive.last >= block.last;
  free.cut(at_first ? block.at_first : at_last ? block.at_last : nodes_[leaves_ + index].everywhere);
  if (!at_last) cut_list(alive, block.beginning, free);
  if (!at_first) cut_list(alive, block.ending, free);
}

void TimeIndex::cut_occupied(std::size_t record, FreeRanges& free) {
  const Lifetime& alive = lifetimes_[record];
  const Span span = spans_[record];
  const bool whole_low = covers(alive, blocks_[span.low]);
  const bool whole_high = covers(alive, blocks_[span.high]);
  whole_.clear();
  walk(span, [](std::size_t) {}, [&](std::size_t node) { whole_.push_back(&nodes_[node].somewhere); });
  if (whole_low) whole_.push_back(&nodes_[leaves_ + span.low].somewhere);
  if (whole_high && span.high != span.low) whole_.push_back(&nodes_[leaves_ + span.high].somewhere);
  // The order of the cuts changes how long they take, not what is left. These sets cover most, and the one of fewest
  // intervals leaves the fewest ranges.
  std::sort(whole_.begin(), whole_.end(),
            [](const IntervalSet* a, const IntervalSet* b) { return a->parts().size() < b->parts().size(); });
  for (const IntervalSet* set : whole_) free.cut(*set);
  walk(span, [&](std::size_t node) { free.cut(nodes_[node].everywhere); }, [](std::size_t) {});
  if (!whole_low) cut_inside_block(alive, span.low, free);
  if (!whole_high && span.high != span.low) cut_inside_block(alive, span.high, free);
}

void TimeIndex::insert_into_list(List& list, const Use& use) {
  const auto at = [&](std::size_t i) { return uses_.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto place = std::upper_bound(at(list.begin), at(list.end), use,
                                      [](const Use& a, const Use& b) { return a.bytes.begin < b.bytes.begin; });
  std::move_backward(place, at(list.end), at(list.end + 1));
  *place = use;
  ++list.end;
}

void TimeIndex::insert_into_block(const Lifetime& alive, std::size_t index, Interval bytes) {
  Block& block = blocks_[index];
  Node& leaf = nodes_[leaves_ + index];
  const bool at_first = alive.first <= block.first;
  const bool at_last = alive.last >= block.last;
  leaf.somewhere.insert(bytes);
  if (at_first && at_last) leaf.everywhere.insert(bytes);
  if (at_first) {
    block.at_first.insert(bytes);
  } else {
    insert_into_list(block.beginning, {alive, bytes});
  }
  if (at_last) {
    block.at_last.insert(bytes);
  } else {
    insert_into_list(block.ending, {alive, bytes});
  }
}

void TimeIndex::insert(std::size_t record, Interval bytes) {
  const Span span = spans_[record];
  insert_into_block(lifetimes_[record], span.low, bytes);
  if (span.high != span.low) insert_into_block(lifetimes_[record], span.high, bytes);
  walk(
      span, [&](std::size_t node) { nodes_[node].somewhere.insert(bytes); },
      [&](std::size_t node) {
        nodes_[node].somewhere.insert(bytes);
        nodes_[node].everywhere.insert(bytes);
        if (node >= leaves_) {
          blocks_[node - leaves_].at_first.insert(bytes);
          blocks_[node - leaves_].at_last.insert(bytes);
        }
      });
}

void TimeIndex::prefetch(std::size_t record) const {
  const Block& low = blocks_[spans_[record].low];
  const Block& high = blocks_[spans_[record].high];
  low.at_last.prefetch();
  for (std::size_t i = low.ending.begin; i < low.ending.end; i += 2) edgemem::prefetch(&uses_[i]);
  high.at_first.prefetch();
  for (std::size_t i = high.beginning.begin; i < high.beginning.end; i += 2) edgemem::prefetch(&uses_[i]);
}

}  // namespace edgemem
