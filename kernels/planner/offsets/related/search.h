// The offset problem with relations (relations.h), solved as well as a given amount of work allows.
//
//   records              groups                 homes                         offsets
//   container, slices -> one each, at      ->   groups of one role, at one ->  of the best plan found: a local search
//   overlaps, pins       fixed differences      offset where that is legal     over orders of homes, then of groups
//
// Homes are few, and a good plan of them is found at once; its order is a good one to place the groups in, each for
// itself, which need less room than the homes. groups.h makes both, conflicts.h says which differences of their offsets
// are forbidden, first_fit.h places them in an order, local_search.h changes the order.
#pragma once

#include "planner/offsets/related/relations.h"
#include "planner/offsets/search/search.h"

namespace edgemem::related {

// Always returns a valid plan, the same one for the same records, relations, work and seed if no seconds are given. The
// seconds count from the first order placed. Pinned records are where they should be and nothing is in a reserved
// range. One thread runs, whatever the limits say. Throws std::invalid_argument for what `check` refuses, and where
// pinned records leave no plan; std::length_error for more pairs of records alive together than `kMostPairs`.
SearchResult search(const Records& records, const Relations& relations, const SearchLimits& limits);

}  // namespace edgemem::related
