#include <stdexcept>
#include <string_view>

#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/positional_maxima.h"
#include "python/arrays.h"
#include "python/signals.h"

namespace nb = nanobind;
using namespace edgemem::python;

namespace {

template <typename Kernel>
Result run(const Kernel& kernel) {
  return result(without_gil(kernel));
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
      [](const Array& first, const Array& last, const Rows& extent, const Array& order, const char* pick) {
        const auto rule = pick_of(pick);
        return run([&] { return edgemem::assign_in_order(records(first, last, extent), column(order), rule); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "order"_a.noconvert(), "pick"_a,
      "Objects [n] of records (extent [n, 1 to 3]) placed in `order`; pick is first or closest.");
  m.def(
      "assign_nearest",
      [](const Array& first, const Array& last, const Rows& extent, const Array& stage, bool new_first) {
        const edgemem::Poll poll(signals());
        return run(
            [&] { return edgemem::assign_nearest(records(first, last, extent), column(stage), new_first, poll); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(), "stage"_a.noconvert(), "new_first"_a,
      "Objects [n] of records (extent [n, 1 to 3]), stage by stage the pair with the fewest idle operators first.\n"
      "Ctrl-C ends it.");
  m.def(
      "assign_by_min_cost_flow",
      [](const Array& first, const Array& last, const Rows& extent) {
        const edgemem::Poll poll(signals());
        return run([&] { return edgemem::assign_by_min_cost_flow(records(first, last, extent), poll); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "extent"_a.noconvert(),
      "Objects [n] of records (extent [n, 1 to 3]) by the cheapest flow that serves every record.\n"
      "Ctrl-C ends it.");
  m.def(
      "positional_maxima",
      [](const Array& first, const Array& last, const Array& size) {
        return run([&] { return edgemem::positional_maxima({column(first), column(last), column(size)}); });
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(),
      "Positional maxima [k], non-increasing.");
}
