#include "replay/context_binding.h"

#include <pthread.h>

#include <cstddef>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <functional>
#include <thread>
#endif

namespace edgemem {

namespace {

struct ThisThread {
  em_context* contexts[2];  // by kind of memory
  int64_t number;           // 0 until it is needed: it takes a system call
};

thread_local ThisThread this_thread{};

em_context*& slot(MemoryKind kind) { return this_thread.contexts[static_cast<std::size_t>(kind)]; }

int64_t ask_thread_number() {
#ifdef __linux__
  return static_cast<int64_t>(syscall(SYS_gettid));
#else
  return static_cast<int64_t>(std::hash<std::thread::id>{}(std::this_thread::get_id()) >> 1);
#endif
}

void know_thread_number() {
  if (this_thread.number == 0) {
    // The thread of a forked process has another number.
    [[maybe_unused]] static const int status = pthread_atfork(nullptr, nullptr, [] { this_thread.number = 0; });
    this_thread.number = ask_thread_number();
  }
}

}  // namespace

Bound find_context(MemoryKind kind) noexcept {
  const ThisThread& here = this_thread;
  return {here.contexts[static_cast<std::size_t>(kind)], here.number};
}

bool bind_context(em_context& context) noexcept {
  em_context*& bound = slot(context.kind());
  if (bound != nullptr) {
    return false;
  }
  know_thread_number();
  bound = &context;
  return true;
}

bool unbind_context(const em_context& context) noexcept {
  em_context*& bound = slot(context.kind());
  if (bound != &context) {
    return false;
  }
  bound = nullptr;
  return true;
}

}  // namespace edgemem
