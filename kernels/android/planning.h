// Plans of recorded runs, by edgemem's fixed rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "android/plan_sets.h"
#include "replay/edgemem_arena.h"

namespace edgemem {

// The events of a run as a plan has them: n > 0 asks for n bytes, -k - 1 frees request k. Throws Refusal if events are
// missing among them.
std::vector<std::int64_t> codes_of(std::span<const em_event> events);

// The plan set of a recording: of greedy_by_size, greedy_by_breadth, greedy_in_order and strip_packing the first with
// the smallest arena. Requests that nothing frees stay on the heap. Throws std::invalid_argument for an alignment that
// is no power of two, and for sizes that add up to more than int64 holds.
PlanSet plan_stream(std::vector<std::int64_t> codes, std::int64_t alignment);

}  // namespace edgemem
