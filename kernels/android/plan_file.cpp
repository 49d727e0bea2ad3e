// The C ABI over plan files.
#include "android/plan_file.h"

#include <limits>
#include <utility>

#include "android/containers.h"
#include "android/edgemem_android.h"
#include "android/guarded.h"
#include "replay/replay_plan.h"

using edgemem::Octets;
using edgemem::PlanSet;
using edgemem::set_error;

namespace {

Octets octets_of(const void* bytes, std::int64_t count) {
  if (count < 0 || (bytes == nullptr && count > 0)) throw edgemem::Refusal("there are no bytes to read");
  if (static_cast<std::uint64_t>(count) > std::numeric_limits<std::size_t>::max() / 2) {
    throw edgemem::Refusal("%lld bytes are more than memory has", static_cast<long long>(count));
  }
  return {static_cast<const std::uint8_t*>(bytes), static_cast<std::size_t>(count)};
}

std::vector<PlanSet> plan_sets_in(Octets bytes, std::int32_t form) {
  switch (form) {
    case EM_FORM_PLANFILE:
      return edgemem::read_plan_sets(bytes);
    case EM_FORM_ONNX:
      return edgemem::read_plan_sets(edgemem::plan_in_onnx(bytes));
    case EM_FORM_TFLITE:
      return edgemem::read_plan_sets(edgemem::plan_in_tflite(bytes));
    default:
      throw edgemem::Refusal("the form is EM_FORM_PLANFILE, EM_FORM_ONNX or EM_FORM_TFLITE");
  }
}

const PlanSet* set_at(const em_planfile* file, std::int64_t set) {
  if (file != nullptr && set >= 0 && set < static_cast<std::int64_t>(file->sets->size())) {
    return &(*file->sets)[static_cast<std::size_t>(set)];
  }
  set_error(file == nullptr ? "no plan file" : "the plan file has no plan set of this number");
  return nullptr;
}

}  // namespace

namespace edgemem {

em_record record_of(const PlacedRecord& record) {
  return {record.name.c_str(), record.first, record.last, record.size, record.offset, record.kind, 0};
}

em_plan* plan_of(const PlanSet& set) {
  if (set.kind != EM_PLAN_OF_RECORDING) {
    set_error("the plan set is not of a recording");
    return nullptr;
  }
  if (!set.unusable.empty()) {
    set_error("the plan cannot be used: %s", set.unusable.c_str());
    return nullptr;
  }
  return em_plan::create(set.stream.events, set.stream.offsets, set.arena, set.alignment);
}

}  // namespace edgemem

em_planfile* em_planfile_read(const void* bytes, int64_t count, int32_t form) {
  return edgemem::guarded<em_planfile*>(nullptr, [&] {
    return new em_planfile{std::make_shared<const std::vector<PlanSet>>(plan_sets_in(octets_of(bytes, count), form))};
  });
}

void em_planfile_release(em_planfile* file) { delete file; }

int64_t em_planfile_sets(const em_planfile* file) {
  return file == nullptr ? 0 : static_cast<int64_t>(file->sets->size());
}

int32_t em_planfile_set(const em_planfile* file, int64_t set, em_planset* out) {
  const PlanSet* found = set_at(file, set);
  if (found == nullptr) return EM_REFUSED;
  if (out == nullptr) {
    set_error("there is no place for the plan set");
    return EM_REFUSED;
  }
  *out = {found->kind,
          found->unusable.empty() ? 1 : 0,
          found->target.c_str(),
          found->digest.c_str(),
          found->strategy.c_str(),
          found->runtime.c_str(),
          found->version.c_str(),
          found->model.c_str(),
          found->arena,
          found->lower_bound,
          found->naive,
          found->alignment,
          static_cast<int64_t>(found->records.size()),
          found->steps,
          found->is_optimal ? 1 : 0,
          0};
  return EM_OK;
}

int32_t em_planfile_record(const em_planfile* file, int64_t set, int64_t record, em_record* out) {
  const PlanSet* found = set_at(file, set);
  if (found == nullptr) return EM_REFUSED;
  if (out == nullptr || record < 0 || record >= static_cast<int64_t>(found->records.size())) {
    set_error(out == nullptr ? "there is no place for the record" : "the plan set has no record of this number");
    return EM_REFUSED;
  }
  *out = edgemem::record_of(found->records[static_cast<std::size_t>(record)]);
  return EM_OK;
}

em_plan* em_planfile_plan(const em_planfile* file, int64_t set) {
  const PlanSet* found = set_at(file, set);
  return found == nullptr ? nullptr : edgemem::plan_of(*found);
}
