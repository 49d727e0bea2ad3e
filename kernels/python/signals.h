// Signals that arrive while a kernel runs.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

namespace edgemem::python {

// A function that raises what a signal asks for. Nothing outside the main thread, since signals arrive only there.
inline std::function<void()> signals() {
  const nanobind::module_ threading = nanobind::module_::import_("threading");
  if (!threading.attr("main_thread")().is(threading.attr("current_thread")())) return {};
  return [] {
    const nanobind::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  };
}

}  // namespace edgemem::python
