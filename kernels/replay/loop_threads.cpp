#include "replay/loop_threads.h"

#include <atomic>
#include <exception>

namespace edgemem {

namespace {

std::atomic<int64_t> loops{0};
std::atomic<int64_t> threads{0};

// Where the calling thread found itself the last time: most threads have to do with one loop.
struct LastFound {
  int64_t loop = 0;
  int64_t thread = 0;  // a number that no other thread of the process has; 0: not given yet
  LoopThread* here = nullptr;
};
constinit thread_local LastFound last_found;

}  // namespace

LoopThreads::LoopThreads() : serial_(loops.fetch_add(1, std::memory_order_relaxed) + 1) {}

LoopThread* LoopThreads::find_mine() const noexcept { return last_found.loop == serial_ ? last_found.here : nullptr; }

LoopThread* LoopThreads::find(bool is_made) noexcept {
  LastFound& last = last_found;
  if (last.loop == serial_) {
    return last.here;
  }
  if (last.thread == 0) {
    last.thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const auto found = threads_.find(last.thread);
  LoopThread* here = found == threads_.end() ? nullptr : &found->second;
  if (here == nullptr && !is_made) {
    return nullptr;
  }
  if (here == nullptr && threads_.size() < kMost) {
    try {
      here = &threads_[last.thread];
    } catch (const std::exception&) {
      return nullptr;
    }
  }
  last.loop = serial_;
  last.here = here;
  return here;
}

}  // namespace edgemem
