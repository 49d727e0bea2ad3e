#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

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
  nb::class_<digest::Sha256>(m, "Sha256", "A SHA-256 of parts that are given one after the other; for one thread.")
      .def(nb::init<>())
      .def(
          "update",
          [](digest::Sha256& sum, const Buffer& part) { without_gil([&] { sum.update({part.data(), part.size()}); }); },
          "part"_a, "Goes on with these bytes.")
      .def(
          "digest",
          [](const digest::Sha256& sum) {
            const auto made = digest::Sha256(sum).finish();
            return nb::bytes(made.data(), made.size());
          },
          "Of all parts so far.");
}
