// Which context serves a request: the one policy that knows about threads.
//
// The policy here is 'the thread that began the run': a context is bound to the thread that calls bind_context until
// that thread calls unbind_context, and a thread has at most one context of each kind of memory. So no two threads call
// one context at once. A policy under which several threads enter one context replaces find_context and, because a
// context is not safe for several threads, gives `Bound` a lock to hold while the request is served.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arena/memory.h"
#include "replay/context.h"

namespace edgemem {

struct Bound {
  em_context* context;  // null: none serves this request
  int64_t thread;       // the operating system's number of the calling thread; 0 if it never had a context
};

// Of the calling thread. Only the functions below touch it.
struct ThreadBindings {
  em_context* contexts[2] = {nullptr, nullptr};  // by kind of memory
  int64_t thread = 0;
  bool is_loading = false;  // em_loading
};
extern constinit thread_local ThreadBindings thread_bindings;

// Who serves a request that the calling thread makes now. Inline, because it is on the way of every request.
inline Bound find_context(MemoryKind kind) noexcept {
  const ThreadBindings& here = thread_bindings;
  return {here.contexts[static_cast<std::size_t>(kind)], here.thread};
}

// False if the calling thread has a context of that kind already.
bool bind_context(em_context& context) noexcept;

// False, and nothing changed, unless the context is bound to the calling thread.
bool unbind_context(const em_context& context) noexcept;

}  // namespace edgemem
