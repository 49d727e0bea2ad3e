#include "replay/context_binding.h"

#include <pthread.h>

#include <cstddef>

#include "arena/arena.h"
#include "arena/blocks.h"
#include "remat_runtime/serving.h"
#include "replay/loop_device.h"

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

// Asks once for each thread, because it takes a system call.
void store_thread_number() {
  if (thread_bindings.thread == 0) {
    thread_bindings.thread = ask_thread_number();
  }
}

// The locks are free in a forked child whatever other threads of the parent did, and its thread has another number.
[[maybe_unused]] const int fork_handlers = pthread_atfork(
    [] {
      remat::serving_lock().lock();
      lock_loops();
      lock_arenas();
      lock_blocks();
    },
    [] {
      unlock_blocks();
      unlock_arenas();
      unlock_loops();
      remat::serving_lock().unlock();
    },
    [] {
      unlock_blocks();
      remake_arenas_lock();
      unlock_loops();
      remat::serving_lock().unlock();
      if (thread_bindings.thread != 0) {
        thread_bindings.thread = ask_thread_number();
      }
    });

}  // namespace

bool bind_context(em_context& context) noexcept {
  em_context*& bound = slot(context.kind());
  if (bound != nullptr) {
    return false;
  }
  store_thread_number();
  thread_bindings.is_loading = false;
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
