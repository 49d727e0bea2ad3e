#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "digest/sha256.h"
#include "python/arrays.h"

namespace nb = nanobind;
namespace digest = edgemem::digest;
using namespace nb::literals;
using namespace edgemem::python;

namespace {

// Bytes, or anything that has them in one piece.
using Buffer = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

}  // namespace

void bind_digest(nb::module_& m) {
  m.def(
      "sha256",
      [](const std::vector<Buffer>& parts) {
        const auto made = without_gil([&] {
          digest::Sha256 sum;
          for (const Buffer& part : parts) {
            sum.update({part.data(), part.size()});
          }
          return sum.finish();
        });
        return nb::bytes(made.data(), made.size());
      },
      "parts"_a, "The SHA-256 of all parts, one after the other.");
}
