// Orders of the groups from which a search begins.
#pragma once

#include <vector>

#include "planner/offsets/related/groups.h"

namespace edgemem::related {

// The groups without a pin, by size, begin, end, area, life, and by the most that is alive beside each.
std::vector<std::vector<Index>> start_orders(const Records& records, const Groups& groups);

// Groups in an order of the homes that they are in, those of one home as they begin.
std::vector<Index> in_order_of_homes(const Records& records, const Groups& groups, const Groups& homes,
                                     const std::vector<Index>& order);

}  // namespace edgemem::related
