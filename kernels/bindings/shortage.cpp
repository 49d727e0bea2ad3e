#include "bindings/shortage.h"

#include <new>

#if defined(_LIBCPP_VERSION) && !defined(__ANDROID__)
#include <dlfcn.h>
#endif

namespace edgemem {

// Compilers with a libc++ of their own, such as Zig, link it in: what it throws is no std::bad_alloc to a runtime that
// was built with libstdc++, and ends the process. So libstdc++ throws it, where the process has one. Nothing on this
// way may need a destructor: the frames here would be unwound by the libc++.
[[noreturn]] void throw_bad_alloc() {
#if defined(_LIBCPP_VERSION) && !defined(__ANDROID__)
  if (void* library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD)) {
    if (void* found = dlsym(library, "_ZSt17__throw_bad_allocv")) {  // std::__throw_bad_alloc()
      reinterpret_cast<void (*)()>(found)();
    }
  }
#endif
  throw std::bad_alloc();
}

}  // namespace edgemem
