// numpy arrays on their way in and out, the same for all bindings.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planner/common/records.h"
#include "planner/shared_objects/object_records.h"

namespace edgemem::python {

namespace nb = nanobind;

// Taken as they are, never converted: another dtype or layout is a TypeError.
using Array = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

inline Column column(const Array& array) { return {array.data(), array.size()}; }
inline Column column(const std::optional<Array>& array) { return array ? column(*array) : Column(); }

inline Records records(const Array& first, const Array& last, const Array& size, std::int64_t alignment,
                       const std::optional<Array>& pinned = {}, const std::optional<Array>& reserved = {}) {
  return {column(first), column(last), column(size), alignment, column(pinned), column(reserved)};
}

inline ObjectRecords records(const Array& first, const Array& last, const Rows& extent) {
  return {column(first), column(last), {extent.data(), extent.size()}, extent.shape(1)};
}

// The vector as an array, without a copy.
inline Result result(std::vector<std::int64_t>&& values) {
  auto kept = std::make_unique<std::vector<std::int64_t>>(std::move(values));
  const std::size_t count = kept->size();
  std::int64_t* const data = kept->data();
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  kept.release();
  return Result(data, {count}, owner);
}

template <typename Function>
auto without_gil(const Function& function) {
  const nb::gil_scoped_release released;
  return function();
}

}  // namespace edgemem::python
