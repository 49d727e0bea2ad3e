// Runs tasks in threads, with the results that they would have one after the other.
#pragma once

#include <functional>

namespace edgemem::offset_search {

// Runs task(0) here and task(1) to task(count - 1) in threads of their own, and returns when all have ended. A task
// whose thread cannot start, or that runs out of memory, is run (again) here once the others have ended: a machine
// short of threads or memory takes longer and has the same result. Any other exception, and one of the second
// try, is thrown to the caller; of several, that of the first task.
void side_by_side(int count, const std::function<void(int)>& task);

}  // namespace edgemem::offset_search
