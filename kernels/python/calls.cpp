// Calls of Python functions between two calls of C: an exception may end Python code between any two instructions, and
// C alone leaves for certain what C entered.
#include <nanobind/nanobind.h>

#include <cstdint>

namespace nb = nanobind;
using namespace nb::literals;

void bind_calls(nb::module_& m) {
  m.def(
      "call_within",
      [](std::uintptr_t enter, std::uintptr_t state, const nb::callable& function, const nb::args& arguments) {
        const auto enter_state = reinterpret_cast<void* (*)(void*)>(enter);
        void* const before = enter_state(reinterpret_cast<void*>(state));
        PyObject* const result = PyObject_Call(function.ptr(), arguments.ptr(), nullptr);
        enter_state(before);
        if (result == nullptr) throw nb::python_error();
        return nb::steal(result);
      },
      "enter"_a, "state"_a, "function"_a, "arguments"_a);
}
