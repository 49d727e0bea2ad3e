// A lock that its thread may take again, and that a forked child can give back: the child's thread keeps its
// std::thread::id, where std::recursive_mutex asks for a thread number that differs there.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace edgemem::remat {

class RecursiveLock {
 public:
  void lock() {
    const std::thread::id self = std::this_thread::get_id();
    if (owner_.load(std::memory_order_relaxed) != self) {
      mutex_.lock();
      owner_.store(self, std::memory_order_relaxed);
    }
    ++depth_;
  }

  void unlock() {
    if (--depth_ == 0) {
      owner_.store({}, std::memory_order_relaxed);
      mutex_.unlock();
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  int depth_ = 0;  // of the owner's; read and written with the lock held
};

}  // namespace edgemem::remat
