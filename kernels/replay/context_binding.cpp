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

constinit thread_local ThreadBindings thread_bindings;

namespace {

em_context*& slot(MemoryKind kind) { return thread_bindings.contexts[static_cast<std::size_t>(kind)]; }

int64_t ask_thread_number() {
#ifdef __linux__
  return static_cast<int64_t>(syscall(SYS_gettid));
#else
  return static_cast<int64_t>(std::hash<std::thread::id>{}(std::this_thread::get_id()) >> 1);
#endif
}

// Asks once for each thread, because it takes a system call, and again after a fork: the child's thread has another
// number.
void store_thread_number() {
  if (thread_bindings.thread == 0) {
    [[maybe_unused]] static const int status =
        pthread_atfork(nullptr, nullptr, [] { thread_bindings.thread = ask_thread_number(); });
    thread_bindings.thread = ask_thread_number();
  }
}

}  // namespace

bool bind_context(em_context& context) noexcept {
  em_context*& bound = slot(context.kind());
  if (bound != nullptr) {
    return false;
  }
  store_thread_number();
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
