#include "planner/search.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <utility>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Taken as it is, never converted: another dtype or layout is a TypeError.
using Array = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

edgemem::Column column(const Array& array) { return {array.data(), array.size()}; }
edgemem::Column column(const std::optional<Array>& array) { return array ? column(*array) : edgemem::Column(); }

Result result(std::vector<std::int64_t>&& values) {
  auto kept = std::make_unique<std::vector<std::int64_t>>(std::move(values));
  std::int64_t* data = kept->data();
  const std::size_t count = kept->size();
  nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return Result(data, {count}, owner);
}

const char* name(edgemem::SearchResult::Stop stop) {
  switch (stop) {
    case edgemem::SearchResult::Stop::kBound:
      return "bound";
    case edgemem::SearchResult::Stop::kProof:
      return "proof";
    case edgemem::SearchResult::Stop::kWork:
      return "work";
    default:
      return "time";
  }
}

// Only there do signals arrive.
bool in_main_thread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("main_thread")().is(threading.attr("current_thread")());
}

void raise_signals() {
  nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

void bind_search(nb::module_& m) {
  m.def(
      "search_offsets",
      [](const Array& first, const Array& last, const Array& size, std::int64_t alignment, std::int64_t work,
         std::uint64_t seed, std::optional<double> seconds, int threads, const std::optional<Array>& pinned,
         const std::optional<Array>& reserved) {
        const edgemem::Records given{column(first), column(last),   column(size),
                                     alignment,     column(pinned), column(reserved)};
        edgemem::SearchLimits limits{work, seed, seconds, threads, {}};
        if (in_main_thread()) limits.poll = raise_signals;
        edgemem::SearchResult found;
        {
          nb::gil_scoped_release release;
          found = edgemem::search_offsets(given, limits);
        }
        return std::make_tuple(result(std::move(found.offsets)), found.bound, name(found.stopped), found.work);
      },
      "first_op"_a.noconvert(), "last_op"_a.noconvert(), "size"_a.noconvert(), "alignment"_a, "work"_a, "seed"_a = 1,
      "seconds"_a = nb::none(), "threads"_a = 1, "pinned"_a.noconvert() = nb::none(),
      "reserved"_a.noconvert() = nb::none(),
      "Offsets found with so much work (and time, if given), the bound proved, why it stopped, the work done.\n"
      "Ctrl-C ends it.");
}
