#pragma once

#include "tests/remat_simulator.h"

namespace edgemem {

// Throws std::invalid_argument unless the columns agree with each other and the events tell one program: each value
// appears once, before it is read; nothing is read or let go after it was let go, or taken by a new version; each call
// runs once, in the order of the calls.
void check_log(const OperatorLog& log);

}  // namespace edgemem
