#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "planner/offsets/breadth.h"
#include "planner/offsets/placement.h"
#include "planner/offsets/spatio_temporal/spatio_temporal.h"
#include "python/arrays.h"
#include "python/signals.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace edgemem::python;

void bind_offsets(nb::module_& m) {
  m.def(
      "place_in_smallest_gap",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, const Array& order,
         const std::optional<Array>& pinned, const std::optional<Array>& reserved) {
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        const edgemem::Poll poll(signals());
        return result(without_gil(
            [&] { return edgemem::place_in_smallest_gap(given, column(order), edgemem::kScanLimit, poll); }));
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "order"_a.noconvert(),
      "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(),
      "Offsets of the records, placed in `order`, each in the smallest gap that holds it. Ctrl-C ends it.");
  m.def(
      "place_on_offset_lines",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, const Array& preference) {
        const edgemem::Records given = records(first, last, size, alignment);
        const edgemem::Poll poll(signals());
        return result(without_gil([&] { return edgemem::place_on_offset_lines(given, column(preference), poll); }));
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a,
      "preference"_a.noconvert(),
      "Offsets by best fit on the lowest offset line, the first of `preference` first.\n"
      "Ctrl-C ends it.");
  m.def(
      "plan_spatio_temporal",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, bool as_printed,
         std::optional<double> seconds, const std::optional<Array>& phases, const std::optional<Array>& pinned,
         const std::optional<Array>& reserved) {
        namespace st = edgemem::spatio_temporal;
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        const st::Rules rules = as_printed ? st::Rules::kPaper : st::Rules::kImproved;
        const st::Limits limits{seconds, signals()};
        st::Result found = without_gil([&] { return st::plan(given, column(phases), rules, limits); });
        return std::make_tuple(result(std::move(found.offsets)), found.bound, edgemem::name(found.stopped),
                               found.tried);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "as_printed"_a = false,
      "seconds"_a = nb::none(), "phases"_a.noconvert() = nb::none(), "pinned"_a.noconvert() = nb::none(),
      "reserved"_a.noconvert() = nb::none(),
      "Offsets by groups of phases and of sizes, the lower bound, why it stopped, the plans that were tried.\n"
      "phases: first and last of each record by turns, -1 for none. Ctrl-C ends it.");
  m.def(
      "offset_lower_bound",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment,
         const std::optional<Array>& pinned, const std::optional<Array>& reserved) {
        const edgemem::Records given = records(first, last, size, alignment, pinned, reserved);
        return without_gil([&] { return edgemem::offset_lower_bound(given); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a,
      "pinned"_a.noconvert() = nb::none(), "reserved"_a.noconvert() = nb::none(),
      "The bytes that no arena can go below.");
  m.def(
      "section_breadths",
      [](const Array& first, const Array& last, const Array& size) {
        const edgemem::Records given = records(first, last, size, 1);
        edgemem::Sections sections = without_gil([&] { return edgemem::section_breadths(given); });
        return std::make_pair(result(std::move(sections.starts)), result(std::move(sections.breadths)));
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(),
      "First operator and breadth of every section: a maximal run of operators with the same records alive.");
  m.def(
      "range_minimum",
      [](const Array& values, const Array& low, const Array& high) {
        return result(without_gil([&] { return edgemem::range_minimum(column(values), column(low), column(high)); }));
      },
      "values"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert(),
      "The smallest of values[low[i]] to values[high[i]], both inclusive, for each i.");
}
