// The kernels of the planner and of the proof, with columns of any length that hold any numbers.
//
// A kernel refuses them (std::invalid_argument), or its result holds: the proof, which shares no code with the planner,
// finds nothing wrong with it. So do the simulator of rematerialisation and its window (operator_logs.h).
#include <numeric>
#include <stdexcept>

#include "fuzz/bytes.h"
#include "fuzz/operator_logs.h"
#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/search/search.h"
#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/positional_maxima.h"
#include "planner/shared_objects/search/search.h"
#include "proof/bounds.h"
#include "proof/objects.h"
#include "proof/offsets.h"

namespace {

namespace proof = edgemem::proof;
using Values = std::vector<std::int64_t>;

constexpr std::size_t kMostRecords = 24;
constexpr std::int64_t kWork = 3000;

struct Columns {
  Values first, last, size, pinned, reserved;
  std::int64_t alignment = 1;

  edgemem::Records records() const { return {first, last, size, alignment, pinned, reserved}; }
};

// Half of the time records as callers have them: intervals that do not end before they begin.
Columns columns_of(Bytes& bytes) {
  Columns made;
  const std::size_t count = bytes.below(kMostRecords + 1);
  made.first = bytes.numbers(count);
  made.last = bytes.numbers(count);
  made.size = bytes.numbers(count);
  made.alignment = bytes.below(8) == 0 ? bytes.number() : std::int64_t{1} << bytes.below(8);
  if (bytes.below(4) != 0) {
    for (std::size_t i = 0; i < count; ++i) {
      made.first[i] &= 0x3F;
      made.last[i] = made.first[i] + (made.last[i] & 0x1F);
      if (made.size[i] < 0) made.size[i] = 5;
    }
  }
  if (bytes.below(3) == 0) {
    made.pinned = bytes.numbers(bytes.below(8) == 0 ? count + 1 : count);
    for (std::int64_t& offset : made.pinned) {
      if (bytes.below(2) == 0) offset = -1;
      if (bytes.below(4) != 0 && offset > 0 && made.alignment > 0) offset -= offset % made.alignment;
    }
  }
  if (bytes.below(3) == 0) {
    made.reserved = bytes.numbers(2 * bytes.below(3));
    std::sort(made.reserved.begin(), made.reserved.end());
  }
  return made;
}

Values order_of(Bytes& bytes, std::size_t count) {
  Values order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t k = count; k > 1; --k) std::swap(order[k - 1], order[bytes.below(k)]);
  if (bytes.below(16) == 0 && count > 0) order[0] = bytes.number();
  return order;
}

void check_offsets(const Columns& given, const Values& offsets, bool constrained) {
  Values ranges;
  for (std::size_t k = 0; constrained && k + 1 < given.reserved.size(); k += 2) {
    if (given.reserved[k] < given.reserved[k + 1]) {
      ranges.insert(ranges.end(), {given.reserved[k], given.reserved[k + 1]});
    }
  }
  HOLDS(offsets.size() == given.first.size());
  Values arena{0};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    HOLDS(offsets[i] >= 0 && offsets[i] <= INT64_MAX - given.size[i]);
    arena[0] = std::max(arena[0], given.size[i] > 0 ? offsets[i] + given.size[i] : 0);
  }
  const proof::Records records{given.first, given.last, given.size, given.alignment, {}, ranges};
  const Values faults = proof::find_offset_faults(records, {offsets, arena});
  HOLDS(faults.empty());
  for (std::size_t i = 0; constrained && !given.pinned.empty() && i < offsets.size(); ++i) {
    if (given.pinned[i] >= 0 && given.size[i] > 0) HOLDS(offsets[i] == given.pinned[i]);
  }
  // No plan is below the bound; joined ranges are what the planner works with, so only without constraints here.
  if (!constrained)
    HOLDS(arena[0] >= edgemem::offset_lower_bound({given.first, given.last, given.size, given.alignment}));
}

void offsets_of(Bytes& bytes) {
  const Columns given = columns_of(bytes);
  const std::size_t count = given.first.size();
  switch (bytes.below(4)) {
    case 0: {
      const Values order = order_of(bytes, count);
      const std::size_t limit = bytes.below(2) == 0 ? 0 : edgemem::kScanLimit;
      check_offsets(given, edgemem::place_in_smallest_gap(given.records(), order, limit), true);
      break;
    }
    case 1: {
      const edgemem::Records free{given.first, given.last, given.size, given.alignment};
      check_offsets(given, edgemem::place_on_offset_lines(free, order_of(bytes, count)), false);
      break;
    }
    case 2: {
      edgemem::SearchLimits limits;
      limits.work = kWork;
      limits.seed = bytes.octet();
      const edgemem::SearchResult found = edgemem::search_offsets(given.records(), limits);
      check_offsets(given, found.offsets, true);
      HOLDS(found.bound <= found.size);
      break;
    }
    default: {
      (void)edgemem::section_breadths(given.records());
      HOLDS(edgemem::offset_lower_bound(given.records()) >= 0);
      const Values values = bytes.numbers(bytes.below(20));
      (void)edgemem::range_minimum(values, given.first, given.last);
    }
  }
}

void objects_of(Bytes& bytes) {
  const Columns given = columns_of(bytes);
  const std::size_t rank = 1 + bytes.below(4);
  const std::size_t count = given.first.size();
  Values extent = bytes.numbers(count * rank);
  if (bytes.below(4) != 0) {
    for (std::int64_t& side : extent) side = side < 0 ? 3 : side % (std::int64_t{1} << 30);
  }
  const edgemem::ObjectRecords records{given.first, given.last, extent, rank};
  Values found;
  switch (bytes.below(6)) {
    case 0:
      found = edgemem::assign_in_order(records, order_of(bytes, count),
                                       bytes.below(2) == 0 ? edgemem::Pick::kFirst : edgemem::Pick::kClosest);
      break;
    case 1:
      found = edgemem::assign_nearest(records, bytes.numbers(count), bytes.below(2) == 0);
      break;
    case 2:
      found = edgemem::assign_by_min_cost_flow(records);
      break;
    case 3: {
      edgemem::ObjectSearchLimits limits;
      limits.work = kWork;
      limits.seed = bytes.octet();
      found = edgemem::search_shared_objects(records, limits).assignment;
      break;
    }
    case 4:
      (void)edgemem::positional_maxima(given.records());
      return;
    default: {
      const Values assignment = bytes.numbers(count);
      const Values objects = bytes.numbers(rank * bytes.below(5));
      (void)proof::find_object_faults({given.first, given.last, extent, rank}, {assignment, objects, rank});
      return;
    }
  }
  std::int64_t most = -1;
  for (const std::int64_t number : found) most = std::max(most, number);
  Values objects(static_cast<std::size_t>(most + 1) * rank, 0);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t& side = objects[static_cast<std::size_t>(found[i]) * rank + d];
      side = std::max(side, extent[i * rank + d]);
    }
  }
  HOLDS(proof::find_object_faults({given.first, given.last, extent, rank}, {found, objects, rank}).empty());
}

void proof_of(Bytes& bytes) {
  const Columns given = columns_of(bytes);
  const std::size_t count = given.first.size();
  Values overlap = bytes.numbers(3 * bytes.below(5));
  Values within = bytes.numbers(3 * bytes.below(5));
  if (bytes.below(4) != 0 && count > 0) {  // rows of records that there are
    for (Values* rows : {&overlap, &within}) {
      for (std::size_t k = 0; k < rows->size(); ++k) {
        if (k % 3 != 2) (*rows)[k] = static_cast<std::int64_t>(bytes.below(count));
      }
    }
  }
  const proof::Records records{given.first,  given.last,     given.size, given.alignment,
                               given.pinned, given.reserved, overlap,    within};
  const Values offsets = bytes.numbers(count);
  const std::size_t regions = 1 + bytes.below(3);
  const Values arena = bytes.numbers(regions);
  const Values region = bytes.below(2) == 0 ? Values() : bytes.numbers(count);
  const Values reserved_region = bytes.below(2) == 0 ? Values() : bytes.numbers(given.reserved.size() / 2);
  (void)proof::find_offset_faults(records, {offsets, arena, region, reserved_region});
  (void)proof::offsets_bound(records);
  (void)proof::objects_bound(records);
  (void)proof::naive_size(records);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  try {
    switch (bytes.below(5)) {
      case 0:
        offsets_of(bytes);
        break;
      case 1:
        objects_of(bytes);
        break;
      case 2:
        simulate_log(bytes);
        break;
      case 3:
        find_window(bytes);
        break;
      default:
        proof_of(bytes);
    }
  } catch (const std::invalid_argument&) {
    // refused
  }
  return 0;
}
