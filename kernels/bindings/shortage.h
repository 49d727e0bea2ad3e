// How a runtime that calls from C++ is told that memory is short.
#pragma once

namespace edgemem {

// Throws std::bad_alloc as the caller's C++ library has it.
[[noreturn]] void throw_bad_alloc();

}  // namespace edgemem
