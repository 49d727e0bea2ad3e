// Takes the room out of a plan that lies between records.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/common/records.h"

namespace edgemem::spatio_temporal {

// Every record as low as those let it that lie below it and are in use together with it; pinned records stay. `offsets`
// is a plan of the records; no record of the result lies higher.
std::vector<std::int64_t> lowered(const Records& records, const std::vector<std::int64_t>& offsets);

}  // namespace edgemem::spatio_temporal
