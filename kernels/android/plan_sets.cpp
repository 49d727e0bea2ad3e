// Plan sets out of a FlatBuffer: edgemem/planfile/plan.fbs has the tables, edgemem/planfile/decoding.py the conditions.
#include "android/plan_sets.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "android/containers.h"
#include "planner/common/builtins.h"

namespace edgemem {

namespace {

// Slots of the fields that are used, by table.
namespace strings {
enum { text, ends };
}
namespace values {
enum { keys, types, integers, texts };
}
namespace problem {
enum {
  names,
  first_op,
  last_op,
  rank,
  sizes,
  kinds,
  tensors,
  tensor_ends,
  alignment,
  pinned,
  reserved,
  overlap,
  within
};
enum { regions = 13 };
}  // namespace problem
namespace plan {
enum { strategy, options, offsets, size, optimal, search, regions, region_sizes };
}
namespace recording {
enum { runtime, version, model, options, signature, events, heap_events, heap_sizes, heap_ends };
}
namespace cycle {
enum { length };
}
namespace planset {
enum { problem, naive, offsets_bound, objects_bound, offsets, objects, target, regions, digest, steps };
enum { order = 12, recording = 21, cycle = 23 };
}  // namespace planset

constexpr std::uint32_t kSeveral = 4;  // the first version whose root is a PlanFile
constexpr std::uint8_t kKinds = 6;
constexpr std::int32_t kState = 5;
constexpr std::uint8_t kValueTypes = 4;
constexpr std::uint8_t kTextType = 2;
constexpr std::int64_t kMostAlignment = std::int64_t{1} << 62;

using Numbers = std::vector<std::int64_t>;

std::string_view view_of(Octets octets) { return {reinterpret_cast<const char*>(octets.data()), octets.size()}; }

template <typename T>
T required(std::optional<T> value, const char* name) {
  if (!value) throw Refusal("%s is missing", name);
  return *std::move(value);
}

Numbers column(const FlatTable& table, int slot, const char* name) {
  return table.integers(slot, name).value_or(Numbers{});
}

std::int64_t natural(const FlatTable& table, int slot, const char* name) {
  const std::int64_t value = table.integer(slot, name, 0);
  if (value < 0) throw Refusal("%s is %lld", name, static_cast<long long>(value));
  return value;
}

void check_length(const char* name, std::size_t length, std::size_t expected) {
  if (length != expected) throw Refusal("%s has %zu entries instead of %zu", name, length, expected);
}

// Throws unless the ends cut `count` items into consecutive pieces.
void check_ends(const Numbers& ends, std::size_t count, const char* name) {
  std::int64_t before = 0;
  for (const std::int64_t end : ends) {
    if (end < before) throw Refusal("%s do not cut %zu items into consecutive pieces", name, count);
    before = end;
  }
  if (before != static_cast<std::int64_t>(count)) {
    throw Refusal("%s do not cut %zu items into consecutive pieces", name, count);
  }
}

// A column of strings; absent is empty. The views are into the buffer.
std::vector<std::string_view> texts(const FlatTable& table, int slot, const char* name) {
  std::vector<std::string_view> all;
  const std::optional<FlatTable> child = table.table(slot, name);
  if (!child) return all;
  const std::string_view text = view_of(required(child->octets(strings::text, name), name));
  const Numbers ends = column(*child, strings::ends, name);
  check_ends(ends, text.size(), name);
  all.reserve(ends.size());
  std::size_t before = 0;
  for (const std::int64_t end : ends) {
    all.push_back(text.substr(before, static_cast<std::size_t>(end) - before));
    check_utf8(all.back(), name);
    before = static_cast<std::size_t>(end);
  }
  return all;
}

void check_codes(Octets codes, std::uint8_t count, const char* name) {
  for (const std::uint8_t code : codes) {
    if (code >= count) throw Refusal("%s has the code %u; there are %u", name, code, count);
  }
}

// Reads the name of a target, which is a map of its attributes, and whether it keeps tensors as GPUs do.
void read_target(const FlatTable& table, PlanSet& set) {
  const std::optional<FlatTable> map = table.table(planset::target, "target");
  if (!map) return;
  const std::vector<std::string_view> keys = texts(*map, values::keys, "keys of target");
  const std::vector<std::string_view> held = texts(*map, values::texts, "texts of target");
  const Octets types = map->octets(values::types, "types of target").value_or(Octets{});
  check_codes(types, kValueTypes, "types of target");
  check_length("a column of target", held.size(), keys.size());
  check_length("a column of target", types.size(), keys.size());
  // UTF-8 compares as code points do.
  if (std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()) != keys.end()) {
    throw Refusal("keys of target are not distinct and ascending");
  }
  const auto found = std::find(keys.begin(), keys.end(), "name");
  if (found == keys.end()) throw Refusal("the target is not the attributes of one");
  const auto index = static_cast<std::size_t>(found - keys.begin());
  if (types[index] != kTextType) throw Refusal("the name of the target is no text");
  set.target = held[index];
  const auto storage = std::find(keys.begin(), keys.end(), "storage");
  if (storage != keys.end() && held[static_cast<std::size_t>(storage - keys.begin())] != "plain") {
    set.unusable = "its tensors are in slices of four channels";
  }
}

void check_totals(const PlanSet& set, const Numbers& pinned) {
  double total = static_cast<double>(set.alignment) * static_cast<double>(set.records.size());
  double above = 0;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    const PlacedRecord& r = set.records[i];
    if (r.first < 0 || r.first > r.last) throw Refusal("record %zu has last_op before first_op, or a negative one", i);
    total += static_cast<double>(r.size);
    end = std::max(end, r.last);
    if (!pinned.empty() && pinned[i] >= 0) {
      above = std::max(
          above, static_cast<double>(pinned[i]) + static_cast<double>(r.size) + static_cast<double>(set.alignment));
    }
  }
  if (total + above >= static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 2) {
    throw Refusal("the sizes add up to more than int64 holds");
  }
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    if (set.records[i].kind == kState && (set.records[i].first != 0 || set.records[i].last != end)) {
      throw Refusal("record %zu is a state, which is in use for the whole run", i);
    }
  }
}

// Bytes, or texels: width times height [times depth].
std::int64_t size_of(const Numbers& sizes, std::size_t record, std::size_t rank) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t side = sizes[record * rank + k];
    if (side < 0) throw Refusal("record %zu has a negative size", record);
    if (multiply_overflows(product, side, &product)) throw Refusal("record %zu is too large", record);
  }
  return product;
}

std::vector<std::vector<std::string>> listed_tensors(const FlatTable& table, std::size_t count) {
  const std::vector<std::string_view> names = texts(table, problem::tensors, "tensors");
  const Numbers ends = column(table, problem::tensor_ends, "tensor_ends");
  check_ends(ends, names.size(), "tensor_ends");
  if (!ends.empty()) check_length("tensor_ends", ends.size(), count);
  std::vector<std::vector<std::string>> all(ends.size());
  std::size_t before = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (; before < static_cast<std::size_t>(ends[i]); ++before) all[i].emplace_back(names[before]);
  }
  return all;
}

// The records, with -1 for offsets; the offsets that are pinned.
Numbers read_problem(const FlatTable& table, PlanSet& set) {
  const std::int64_t rank = table.integer(problem::rank, "rank", 1);
  if (rank < 1 || rank > 3) throw Refusal("sizes of rank %lld", static_cast<long long>(rank));
  const std::vector<std::string_view> names = texts(table, problem::names, "names");
  const Numbers first = column(table, problem::first_op, "first_op");
  const Numbers last = column(table, problem::last_op, "last_op");
  const Numbers sizes = column(table, problem::sizes, "sizes");
  const Octets kinds = table.octets(problem::kinds, "kinds").value_or(Octets{});
  const std::size_t count = names.size();
  check_length("first_op", first.size(), count);
  check_length("last_op", last.size(), count);
  check_length("sizes", sizes.size(), count * static_cast<std::size_t>(rank));
  check_length("kinds", kinds.size(), count);
  check_codes(kinds, kKinds, "kinds");
  std::vector<std::vector<std::string>> tensors = listed_tensors(table, count);
  Numbers pinned = column(table, problem::pinned, "pinned");
  if (table.has(problem::pinned)) {
    check_length("pinned", pinned.size(), count);
    const auto is_pin = [](std::int64_t pin) { return pin >= 0; };
    if (std::any_of(pinned.begin(), pinned.end(), [](std::int64_t pin) { return pin < -1; }) ||
        std::none_of(pinned.begin(), pinned.end(), is_pin)) {
      throw Refusal("pinned has a negative offset, or none at all");
    }
  }
  set.alignment = table.integer(problem::alignment, "alignment", 1);
  if (set.alignment < 1 || set.alignment > kMostAlignment || (set.alignment & (set.alignment - 1)) != 0) {
    throw Refusal("alignment %lld is not a power of two", static_cast<long long>(set.alignment));
  }
  set.records.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    set.records.push_back({std::string(names[i]), first[i], last[i], size_of(sizes, i, static_cast<std::size_t>(rank)),
                           -1, kinds[i], tensors.empty() ? std::vector<std::string>{} : std::move(tensors[i])});
  }
  check_totals(set, pinned);
  if (rank != 1) set.unusable = "its sizes are texels of textures";
  if (table.has(problem::reserved)) set.unusable = "it has reserved bytes";
  if (table.has(problem::overlap) || table.has(problem::within)) set.unusable = "it has records that share bytes";
  if (table.has(problem::regions)) set.unusable = "it has records that are in one of several regions";
  return pinned;
}

// The smallest plan with offsets, the first of equals. Returns how many there are.
std::size_t read_places(const FlatTable& table, PlanSet& set) {
  const std::vector<FlatTable> plans = table.tables(planset::offsets, "offsets");
  Numbers best;
  bool in_regions = false;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    std::string strategy = required(plans[k].text(plan::strategy, "strategy"), "strategy");
    Numbers offsets = required(plans[k].integers(plan::offsets, "offsets"), "offsets");
    check_length("offsets", offsets.size(), set.records.size());
    if (std::any_of(offsets.begin(), offsets.end(), [](std::int64_t offset) { return offset < 0; })) {
      throw Refusal("offsets has a negative number");
    }
    const std::int64_t size = natural(plans[k], plan::size, "size");
    if (k != 0 && size >= set.arena) continue;
    best = std::move(offsets);
    set.strategy = std::move(strategy);
    set.arena = size;
    in_regions = plans[k].has(plan::regions) || plans[k].has(plan::region_sizes);
  }
  for (std::size_t i = 0; i < best.size(); ++i) set.records[i].offset = best[i];
  if (plans.empty()) set.unusable = "it has no plan with offsets";
  if (in_regions) set.unusable = "it has several arenas";
  return plans.size();
}

void read_recording(const FlatTable& table, PlanSet& set) {
  set.runtime = required(table.text(recording::runtime, "runtime"), "runtime");
  set.version = required(table.text(recording::version, "version"), "version");
  set.model = required(table.text(recording::model, "model"), "model");
  required(table.table(recording::signature, "signature"), "signature");
  HeapRequests heap{
      column(table, recording::heap_events, "heap_events"), column(table, recording::heap_sizes, "heap_sizes"), {}};
  std::optional<Numbers> ends = table.integers(recording::heap_ends, "heap_ends");
  if (ends && std::none_of(ends->begin(), ends->end(), [](std::int64_t end) { return end >= 0; })) {
    throw Refusal("heap_ends has no event at all");
  }
  heap.ends = ends ? *std::move(ends) : Numbers(heap.events.size(), -1);
  set.steps = table.integer(recording::events, "events", 0);
  set.stream = stream_of(set.records, heap, set.steps);
}

void check_order(const FlatTable& table, PlanSet& set) {
  const std::optional<Numbers> order = table.integers(planset::order, "order");
  if (!order) return;
  std::vector<bool> seen(order->size(), false);
  for (std::size_t k = 0; k < order->size(); ++k) {
    const auto at = static_cast<std::uint64_t>((*order)[k]);
    if (at >= seen.size() || seen[at]) throw Refusal("the order is no permutation of %zu operators", seen.size());
    seen[at] = true;
    if (at != k) set.unusable = "it is of another order of the operators than the model's";
  }
}

// Of a graph: the operators that the file lists, or else those that a record is in use at.
std::int64_t operators_of(const FlatTable& table, const PlanSet& set) {
  const std::size_t listed = texts(table, planset::steps, "steps").size();
  std::int64_t last = -1;
  for (const PlacedRecord& record : set.records) last = std::max(last, record.last);
  if (listed != 0 && last >= static_cast<std::int64_t>(listed)) {
    throw Refusal("%zu steps, but records until step %lld", listed, static_cast<long long>(last));
  }
  if (listed != 0) return static_cast<std::int64_t>(listed);
  return last == std::numeric_limits<std::int64_t>::max() ? last : last + 1;
}

PlanSet read_plan_set(const FlatTable& table, std::uint32_t version) {
  PlanSet set;
  const Numbers pinned = read_problem(required(table.table(planset::problem, "problem"), "problem"), set);
  set.naive = natural(table, planset::naive, "naive");
  set.lower_bound = natural(table, planset::offsets_bound, "offsets_bound");
  const std::size_t plans = read_places(table, set);
  set.is_optimal = plans != 0 && set.arena == set.lower_bound;
  read_target(table, set);
  set.digest = table.text(planset::digest, "digest").value_or("");
  check_order(table, set);
  set.steps = operators_of(table, set);
  const std::optional<FlatTable> recorded = table.table(planset::recording, "recording");
  const std::optional<FlatTable> period = table.table(planset::cycle, "cycle");
  if ((recorded || period) && version < kSeveral) {
    throw Refusal("the plan file has version %u, but holds what version %u is for", version, kSeveral);
  }
  if (recorded || period) {
    if (plans != 1 || table.count(planset::objects, "shared_objects") != 0 || (recorded && period)) {
      throw Refusal("the plan of a recording or a cycle is not one plan with offsets");
    }
  }
  if (recorded) {
    set.kind = EM_PLAN_OF_RECORDING;
    read_recording(*recorded, set);
  } else if (period) {
    set.kind = EM_PLAN_OF_CYCLE;
    set.steps = natural(*period, cycle::length, "length");
    set.unusable = "it is of a program that repeats itself";
  }
  if (set.unusable.empty()) set.unusable = fault_of(set);
  for (std::size_t i = 0; set.unusable.empty() && i < pinned.size(); ++i) {
    if (pinned[i] >= 0 && pinned[i] != set.records[i].offset && set.records[i].size > 0) {
      set.unusable = about_record(i, " is not where it is pinned");
    }
  }
  return set;
}

}  // namespace

std::vector<PlanSet> read_plan_sets(Octets file) {
  const Payload payload = unwrap(file);
  FlatBuffer buffer(payload.bytes);
  std::vector<PlanSet> sets;
  if (payload.version < kSeveral) {
    sets.push_back(read_plan_set(FlatTable::root(buffer, "EMPL"), payload.version));
    return sets;
  }
  for (const FlatTable& table : FlatTable::root(buffer, "EMPF").tables(0, "plan_sets")) {
    sets.push_back(read_plan_set(table, payload.version));
  }
  if (sets.empty()) throw Refusal("there are no plan sets");
  if (std::count_if(sets.begin(), sets.end(), [](const PlanSet& s) { return s.kind == EM_PLAN_OF_GRAPH; }) > 1) {
    throw Refusal("there are several plan sets without a recording or a cycle; a file holds one of a graph");
  }
  return sets;
}

}  // namespace edgemem
