// Spatio-temporal planning of training (Huang et al. 2026, STWeaver, section 5.1).
//
// HomoPhase groups (local_plan.h) are fused (fusion.h). Each group is then one request of the global plan, where
// requests of one size share memory layers (layers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/common/records.h"
#include "planner/common/stop.h"
#include "planner/offsets/spatio_temporal/local_plan.h"

namespace edgemem::spatio_temporal {

struct Limits {
  std::optional<double> seconds;  // with it the result depends on the machine
  std::function<void()> poll;     // called some twenty times a second; what it throws ends all
};

struct Result {
  std::vector<std::int64_t> offsets;  // bytes
  std::int64_t bound = 0;             // offset_lower_bound
  Stop stopped = Stop::kWork;         // kWork: all plans were made
  std::int64_t tried = 0;             // plans made
};

// `phases`: first and last phase of each record by turns, -1 for none; if it is empty, they are derived from the load
// (phases.h). Pinned records are where they should be and nothing is in a reserved range.
//
// kPaper: the paper's rules; all layers lie above what is pinned or reserved.
// kImproved: the smallest of several plans, up to the first at the bound. They differ in the share that a group must
// use of its box to be one request (groups with less are taken apart), and in which sizes count as equal
// (near_sizes.h). Requests go into the smallest gap of addresses that is free as long as they are in use, instead of
// into one layer.
//
// Where time ends before there is a plan, all records lie end to end. Throws std::invalid_argument for records that
// `check` refuses, for phases that are not two a record, and seconds below 0.
Result plan(const Records& records, Column phases, Rules rules, const Limits& limits = {});

}  // namespace edgemem::spatio_temporal
