// The threads that a loop knows: their numbers, and the sections they are in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "replay/loop_matcher.h"

namespace edgemem {

// A thread's part of a loop. Only the thread itself uses it.
struct LoopThread {
  int64_t number = -1;  // its lane in the session below; -1 before its first request in an iteration
  int64_t session = 0;
  SectionEntry entry;
  int64_t iteration = 0;  // in which it entered the section
};

class LoopThreads {
 public:
  LoopThreads();
  LoopThreads(const LoopThreads&) = delete;
  LoopThreads& operator=(const LoopThreads&) = delete;

  // Of the calling thread, as long as the loop lives; null if there are too many threads or memory is short. Not safe
  // for several threads at once.
  LoopThread* mine() noexcept { return find(true); }

  // The same, or null if this is the first time that the thread is asked for.
  LoopThread* known() noexcept { return find(false); }

  // The same, or null, if this was the last loop that the calling thread asked for itself. Any thread, any time.
  LoopThread* find_mine() const noexcept;

 private:
  LoopThread* find(bool is_made) noexcept;

  static constexpr std::size_t kMost = 4096;  // a program that makes threads without end does not fill memory

  int64_t serial_;  // a number that no other loop of the process has
  std::unordered_map<int64_t, LoopThread> threads_;
};

}  // namespace edgemem
