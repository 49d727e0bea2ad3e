#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_caching(nb::module_& m);
void bind_calls(nb::module_& m);
void bind_offsets(nb::module_& m);
void bind_proof(nb::module_& m);
void bind_recompute(nb::module_& m);
void bind_schedule(nb::module_& m);
void bind_search(nb::module_& m);
void bind_shared_objects(nb::module_& m);

NB_MODULE(_kernels, m) {
  m.doc() =
      "Hot loops of the strategies, the proof and the simulators. Every function checks its arrays and releases the "
      "GIL.";
  bind_caching(m);
  bind_calls(m);
  bind_offsets(m);
  bind_proof(m);
  bind_recompute(m);
  bind_schedule(m);
  bind_search(m);
  bind_shared_objects(m);
}
