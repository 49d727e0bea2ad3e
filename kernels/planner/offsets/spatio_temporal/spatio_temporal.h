// Spatio-temporal planning of training (Huang et al. 2026, STWeaver, section 5.1).
//
// HomoPhase groups (local_plan.h) are fused (fusion.h). Each group is then one request of the global plan, where
// requests of one size share memory layers (layers.h).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/poll.h"
#include "planner/common/records.h"
#include "planner/offsets/spatio_temporal/local_plan.h"

namespace edgemem::spatio_temporal {

// Offsets [n]. `phases`: first and last phase of each record by turns, -1 for none; if it is empty, they are derived
// from the load (phases.h). Pinned records are where they should be and nothing is in a reserved range.
//
// kPaper: the paper's rules; all layers lie above what is pinned or reserved.
// kImproved: the smallest of several plans. They differ in the share that a group must use of its box to be one request
// (groups with less are taken apart), and in which sizes count as equal. Requests of one size, in the order of time,
// go into the smallest gap of addresses that is free as long as they are in use.
//
// Throws std::invalid_argument for records that `check` refuses, and for phases that are not two a record.
std::vector<std::int64_t> plan(const Records& records, Column phases, Rules rules, Poll poll = {});

}  // namespace edgemem::spatio_temporal
