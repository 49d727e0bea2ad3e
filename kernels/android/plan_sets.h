// What a plan file holds, as far as devices use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "android/edgemem_android.h"
#include "android/flat_reader.h"

namespace edgemem {

struct PlacedRecord {
  std::string name;
  std::int64_t first;
  std::int64_t last;
  std::int64_t size;
  std::int64_t offset;  // -1 without a plan with offsets
  std::int32_t kind;
  std::vector<std::string> tensors;  // that live in it, if the file lists them
};

// A recorded run: n > 0 asks for n bytes, -k - 1 frees request k; and the place of each request, -1 for the heap.
struct Stream {
  std::vector<std::int64_t> events;
  std::vector<std::int64_t> offsets;
};

struct PlanSet {
  std::int32_t kind = EM_PLAN_OF_GRAPH;
  std::string unusable;  // why it cannot be used here; "" if it can
  std::string target, digest, strategy, runtime, version, model;
  std::int64_t arena = 0;
  std::int64_t lower_bound = 0;
  std::int64_t naive = 0;
  std::int64_t alignment = 1;
  std::int64_t steps = 0;
  bool is_optimal = false;
  std::vector<PlacedRecord> records;
  Stream stream;  // of a recording
};

// All plan sets of a plan file. Throws Refusal for bytes that are none, or whose parts do not fit together.
std::vector<PlanSet> read_plan_sets(Octets file);

// "record 3" and the text.
std::string about_record(std::size_t record, const char* text);

// Why these places are no plan: one outside of the arena or misaligned, or two records with common bytes that are in
// use at the same time; "" if they are one. O(n log n).
std::string fault_of(const PlanSet& set);

// The requests that stay on the heap: the events that ask for them, their sizes, and the events that free them or -1.
struct HeapRequests {
  std::vector<std::int64_t> events;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> ends;
};

// Puts the records and the heap's requests of a recording together, by the rule in docs/plan-file.md. Throws Refusal
// unless each of the `count` events is the request or the free of exactly one of them.
Stream stream_of(const std::vector<PlacedRecord>& records, const HeapRequests& heap, std::int64_t count);

}  // namespace edgemem
