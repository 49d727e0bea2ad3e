#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_offsets(nb::module_& m);
void bind_proof(nb::module_& m);
void bind_search(nb::module_& m);
void bind_shared_objects(nb::module_& m);

NB_MODULE(_kernels, m) {
  m.doc() = "Hot loops of the strategies and of the proof. Every function checks its arrays and releases the GIL.";
  bind_offsets(m);
  bind_proof(m);
  bind_search(m);
  bind_shared_objects(m);
}
