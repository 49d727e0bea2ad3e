#include "planner/shared_objects.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/positional_maxima.h"
#include "planner/shared_objects_search.h"

namespace nb = nanobind;

namespace {

// Taken as they are, never converted: another dtype or layout is a TypeError.
using Values = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

edgemem::Column column(const Values& values) { return {values.data(), values.size()}; }

edgemem::ObjectRecords records_of(const Values& first, const Values& last, const Rows& extent) {
  return {column(first), column(last), {extent.data(), extent.size()}, extent.shape(1)};
}

Result handed_over(std::vector<std::int64_t>&& values) {
  auto kept = std::make_unique<std::vector<std::int64_t>>(std::move(values));
  const std::size_t count = kept->size();
  std::int64_t* const data = kept->data();
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  kept.release();
  return Result(data, {count}, owner);
}

// Runs `kernel` without the GIL and hands its vector to numpy.
template <typename Kernel>
Result run(const Kernel& kernel) {
  std::vector<std::int64_t> values;
  {
    const nb::gil_scoped_release released;
    values = kernel();
  }
  return handed_over(std::move(values));
}

const char* name_of(edgemem::ObjectSearchResult::Stop stop) {
  switch (stop) {
    case edgemem::ObjectSearchResult::Stop::kBound:
      return "bound";
    case edgemem::ObjectSearchResult::Stop::kProof:
      return "proof";
    case edgemem::ObjectSearchResult::Stop::kWork:
      return "work";
    default:
      return "time";
  }
}

edgemem::Pick pick_of(std::string_view pick) {
  if (pick == "first") return edgemem::Pick::kFirst;
  if (pick == "closest") return edgemem::Pick::kClosest;
  throw std::invalid_argument("pick is first or closest");
}

}  // namespace

void bind_shared_objects(nb::module_& m) {
  using namespace nb::literals;

  m.def(
      "assign_in_order",
      [](const Values& first, const Values& last, const Rows& extent, const Values& order, const char* pick) {
        const auto rule = pick_of(pick);
        return run([&] { return edgemem::assign_in_order(records_of(first, last, extent), column(order), rule); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "order"_a.noconvert(), "pick"_a,
      "Objects [n] of records (extent [n, 1 to 3]) placed in `order`; pick is first or closest.");
  m.def(
      "assign_nearest",
      [](const Values& first, const Values& last, const Rows& extent, const Values& stage, bool new_first) {
        return run([&] { return edgemem::assign_nearest(records_of(first, last, extent), column(stage), new_first); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "stage"_a.noconvert(), "new_first"_a,
      "Objects [n] of records (extent [n, 1 to 3]), stage by stage the pair with the fewest idle operators first.");
  m.def(
      "assign_by_min_cost_flow",
      [](const Values& first, const Values& last, const Rows& extent) {
        return run([&] { return edgemem::assign_by_min_cost_flow(records_of(first, last, extent)); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(),
      "Objects [n] of records (extent [n, 1 to 3]) by the cheapest flow that serves every record.");
  m.def(
      "search_shared_objects",
      [](const Values& first, const Values& last, const Rows& extent, std::int64_t work, std::uint64_t seed,
         std::optional<double> seconds) {
        edgemem::ObjectSearchResult found;
        {
          const nb::gil_scoped_release released;
          found = edgemem::search_shared_objects(records_of(first, last, extent), {work, seed, seconds});
        }
        return std::make_tuple(handed_over(std::move(found.assignment)), found.bound, name_of(found.stopped),
                               found.work);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "work"_a, "seed"_a = 1,
      "seconds"_a = nb::none(),
      "Objects [n] found with so much work (and time, if given), the bound proved, why it stopped, the work done.");
  m.def(
      "positional_maxima",
      [](const Values& first, const Values& last, const Values& size) {
        return run([&] { return edgemem::positional_maxima({column(first), column(last), column(size)}); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(),
      "Positional maxima [k], non-increasing.");
}
