// Phases of a program of which none are known.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/records.h"

namespace edgemem::spatio_temporal {

// The first and last phase of each record by turns. A phase ends where the bytes alive turn: from rising to falling, or
// from falling to rising, if they rise or fall by a sixteenth of their maximum or more in between. In training these
// are forward and backward passes.
std::vector<std::int64_t> phases_by_load(const Records& records);

}  // namespace edgemem::spatio_temporal
