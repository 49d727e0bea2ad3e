#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "proof/bounds.h"
#include "proof/objects.h"
#include "proof/offsets.h"
#include "python/arrays.h"

namespace nb = nanobind;
namespace proof = edgemem::proof;
using namespace nb::literals;
using namespace edgemem::python;

namespace {

using Optional = std::optional<Array>;

proof::Records records(const Array& first, const Array& last, const Array& size, std::int64_t alignment,
                       const Optional& pinned, const Optional& reserved, const Optional& overlap,
                       const Optional& within) {
  return {column(first),  column(last),     column(size),    alignment,
          column(pinned), column(reserved), column(overlap), column(within)};
}

}  // namespace

void bind_proof(nb::module_& m) {
  m.def(
      "find_offset_faults",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, const Array& offsets,
         const Array& arena, const Optional& pinned, const Optional& reserved, const Optional& overlap,
         const Optional& within, const Optional& region, const Optional& reserved_region) {
        const proof::Records given = records(first, last, size, alignment, pinned, reserved, overlap, within);
        const proof::Placement placement{column(offsets), column(arena), column(region), column(reserved_region)};
        return result(without_gil([&] { return proof::find_offset_faults(given, placement); }));
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "offsets"_a.noconvert(),
      "arena"_a.noconvert(), "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(),
      "overlap"_a.noconvert() = nb::none(), "within"_a.noconvert() = nb::none(), "region"_a.noconvert() = nb::none(),
      "reserved_region"_a.noconvert() = nb::none(), "What is wrong with offsets: rows of 7 numbers, at most 100.");
  m.def(
      "find_object_faults",
      [](const Array& first, const Array& last, const Rows& extent, const Array& assignment, const Rows& objects) {
        const proof::Extents given{column(first), column(last), {extent.data(), extent.size()}, extent.shape(1)};
        const proof::Sharing sharing{column(assignment), {objects.data(), objects.size()}, objects.shape(1)};
        return result(without_gil([&] { return proof::find_object_faults(given, sharing); }));
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "assignment"_a.noconvert(),
      "objects"_a.noconvert(), "What is wrong with shared objects: rows of 7 numbers, at most 100.");
  m.def(
      "recompute_claims",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, const Optional& pinned,
         const Optional& reserved, const Optional& overlap, const Optional& within) {
        const proof::Records given = records(first, last, size, alignment, pinned, reserved, overlap, within);
        return without_gil([&] {
          return std::tuple(proof::offsets_bound(given), proof::objects_bound(given), proof::naive_size(given));
        });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a,
      "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(), "overlap"_a.noconvert() = nb::none(),
      "within"_a.noconvert() = nb::none(), "Both lower bounds and the naive size.");
}
