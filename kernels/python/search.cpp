// The searches, which take long: Ctrl-C ends them.
#include "planner/offsets/search/search.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "planner/offsets/related/bound.h"
#include "planner/offsets/related/search.h"
#include "planner/shared_objects/search/search.h"
#include "python/arrays.h"
#include "python/signals.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace edgemem::python;

namespace {

edgemem::related::Relations relations(const std::optional<Array>& overlap, const std::optional<Array>& within,
                                      const std::optional<Array>& roles = {}) {
  return {column(overlap), column(within), column(roles)};
}

}  // namespace

void bind_search(nb::module_& m) {
  m.def(
      "search_offsets",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, std::int64_t work,
         std::uint64_t seed, std::optional<double> seconds, int threads, const std::optional<Array>& pinned,
         const std::optional<Array>& reserved) {
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        const edgemem::SearchLimits limits{work, seed, seconds, threads, signals()};
        edgemem::SearchResult found = without_gil([&] { return edgemem::search_offsets(given, limits); });
        return std::make_tuple(result(std::move(found.offsets)), found.bound, edgemem::name(found.stopped), found.work);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "work"_a, "seed"_a = 1,
      "seconds"_a = nb::none(), "threads"_a = 1, "pinned"_a.noconvert() = nb::none(),
      "reserved"_a.noconvert() = nb::none(),
      "Offsets found with so much work (and time, if given), the bound proved, why it stopped, the work done.\n"
      "Ctrl-C ends it.");
  m.def(
      "search_related_offsets",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, std::int64_t work,
         std::uint64_t seed, std::optional<double> seconds, const std::optional<Array>& pinned,
         const std::optional<Array>& reserved, const std::optional<Array>& overlap, const std::optional<Array>& within,
         const std::optional<Array>& roles) {
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        const edgemem::related::Relations related = relations(overlap, within, roles);
        const edgemem::SearchLimits limits{work, seed, seconds, 1, signals()};
        edgemem::SearchResult found = without_gil([&] { return edgemem::related::search(given, related, limits); });
        return std::make_tuple(result(std::move(found.offsets)), found.bound, edgemem::name(found.stopped), found.work);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "work"_a, "seed"_a = 1,
      "seconds"_a = nb::none(), "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(),
      "overlap"_a.noconvert() = nb::none(), "within"_a.noconvert() = nb::none(), "roles"_a.noconvert() = nb::none(),
      "The same for records with relations: overlap and within row by row, three numbers each; roles [n], -1: none.\n"
      "Ctrl-C ends it.");
  m.def(
      "related_lower_bound",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment,
         const std::optional<Array>& pinned, const std::optional<Array>& reserved, const std::optional<Array>& overlap,
         const std::optional<Array>& within) {
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        const edgemem::related::Relations related = relations(overlap, within);
        return without_gil([&] {
          edgemem::related::check(given, related);
          return edgemem::related::lower_bound(given, related);
        });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a,
      "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(), "overlap"_a.noconvert() = nb::none(),
      "within"_a.noconvert() = nb::none(), "What no offset plan of records with relations can go below, in bytes.");
  m.def(
      "search_shared_objects",
      [](const Array& first, const Array& last, const Rows& extent, std::int64_t work, std::uint64_t seed,
         std::optional<double> seconds) {
        const edgemem::ObjectRecords given = records(first, last, extent);
        const edgemem::ObjectSearchLimits limits{work, seed, seconds, signals()};
        edgemem::ObjectSearchResult found = without_gil([&] { return edgemem::search_shared_objects(given, limits); });
        return std::make_tuple(result(std::move(found.assignment)), found.bound, edgemem::name(found.stopped),
                               found.work);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "work"_a, "seed"_a = 1,
      "seconds"_a = nb::none(),
      "Objects [n] found with so much work (and time, if given), the bound proved, why it stopped, the work done.\n"
      "Ctrl-C ends it.");
}
