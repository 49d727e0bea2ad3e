// What the replay allocator asks of the runtime that recomputes tensors for training, which is not part of the library
// for Android: its lock, which is taken first where a process forks.
#include "remat_runtime/serving.h"

namespace edgemem::remat {

RecursiveLock& serving_lock() {
  static RecursiveLock* one = new RecursiveLock;  // never destroyed: a process may fork while it ends
  return *one;
}

}  // namespace edgemem::remat
