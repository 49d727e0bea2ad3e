// The tensors of a TensorFlow Lite interpreter in memory of the caller's, at the places of a plan.
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "android/edgemem_android.h"
#include "android/guarded.h"
#include "android/plan_file.h"

namespace {

using edgemem::PlanSet;
using edgemem::Refusal;

constexpr std::int64_t kTensorAlignment = 64;  // that TensorFlow Lite asks of memory that others give it
constexpr std::int32_t kWorkspace = 4;         // kind of a record

// TensorFlow Lite's functions that are used; its structures stay unknown but for the one that is passed in.
struct Allocation {
  void* data;
  std::size_t bytes;
};

template <typename Function>
void find(void* library, const char* name, Function*& out) {
  void* found = dlsym(library == nullptr ? RTLD_DEFAULT : library, name);
  if (found == nullptr) throw Refusal("the TensorFlow Lite library does not export %s", name);
  out = reinterpret_cast<Function*>(found);
}

struct Tflite {
  void* (*tensor)(const void* interpreter, std::int32_t index);  // null behind the last one
  const char* (*name)(const void* tensor);
  std::size_t (*bytes)(const void* tensor);
  int (*place)(void* interpreter, int index, const Allocation* allocation, std::int64_t flags);

  explicit Tflite(void* library) {
    find(library, "TfLiteInterpreterGetTensor", tensor);
    find(library, "TfLiteTensorName", name);
    find(library, "TfLiteTensorByteSize", bytes);
    find(library, "TfLiteInterpreterSetCustomAllocationForTensor", place);
  }
};

using Indices = std::unordered_map<std::string, std::int32_t>;

// The tensors of the interpreter by their names in a plan, which are made as edgemem makes them.
Indices tensors_by_name(const Tflite& runtime, const void* interpreter) {
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> often;
  for (std::int32_t k = 0; const void* tensor = runtime.tensor(interpreter, k); ++k) {
    const char* name = runtime.name(tensor);
    names.emplace_back(name == nullptr ? "" : name);
    ++often[names.back()];
  }
  Indices indices;
  for (std::size_t k = 0; k < names.size(); ++k) {
    std::string name = names[k];
    if (name.empty() || often[names[k]] > 1 || indices.contains(name)) (name += '#') += std::to_string(k);
    while (indices.contains(name)) name += "'";
    indices.emplace(std::move(name), static_cast<std::int32_t>(k));
  }
  return indices;
}

const PlanSet& graph_plan(const em_planfile& file) {
  const auto found = std::find_if(file.sets->begin(), file.sets->end(),
                                  [](const PlanSet& set) { return set.kind == EM_PLAN_OF_GRAPH; });
  if (found == file.sets->end()) throw Refusal("the plan file has no plan of a graph");
  if (!found->unusable.empty()) throw Refusal("the plan cannot be used: %s", found->unusable.c_str());
  return *found;
}

struct Placed {
  std::int32_t tensor;
  Allocation allocation;
};

void add_places(std::vector<Placed>& all, const PlanSet& set, const Tflite& runtime, const void* interpreter,
                std::byte* arena) {
  const Indices indices = tensors_by_name(runtime, interpreter);
  const bool lists_tensors =
      std::any_of(set.records.begin(), set.records.end(), [](const auto& record) { return !record.tensors.empty(); });
  for (const edgemem::PlacedRecord& record : set.records) {
    const std::vector<std::string> own =
        lists_tensors || record.kind == kWorkspace ? record.tensors : std::vector<std::string>{record.name};
    for (const std::string& name : own) {
      const auto found = indices.find(name);
      if (found == indices.end()) {
        throw Refusal("the model has no tensor %.80s: the plan is of another model", name.c_str());
      }
      const std::size_t bytes = runtime.bytes(runtime.tensor(interpreter, found->second));
      if (bytes > static_cast<std::size_t>(record.size)) {
        throw Refusal("tensor %.80s has %zu bytes, and %lld in the plan: the plan is of another model", name.c_str(),
                      bytes, static_cast<long long>(record.size));
      }
      if (record.offset % kTensorAlignment != 0) {
        throw Refusal("the plan places tensor %.80s at no multiple of %lld; plan with --alignment 64", name.c_str(),
                      static_cast<long long>(kTensorAlignment));
      }
      all.push_back({found->second, {arena + record.offset, static_cast<std::size_t>(record.size)}});
    }
  }
}

void place(void* library, void* interpreter, const em_planfile& file, std::byte* arena, std::int64_t bytes) {
  const PlanSet& set = graph_plan(file);
  const auto alignment = static_cast<std::uintptr_t>(std::max(set.alignment, kTensorAlignment));
  if (bytes < set.arena || reinterpret_cast<std::uintptr_t>(arena) % alignment != 0) {
    throw Refusal("the plan needs %lld bytes aligned to %llu; the arena has %lld", static_cast<long long>(set.arena),
                  static_cast<unsigned long long>(alignment), static_cast<long long>(bytes));
  }
  const Tflite runtime(library);
  std::vector<Placed> all;
  add_places(all, set, runtime, interpreter, arena);
  for (const Placed& placed : all) {
    if (const int status = runtime.place(interpreter, placed.tensor, &placed.allocation, 0); status != 0) {
      throw Refusal("TensorFlow Lite refused the memory for tensor %d (status %d)", placed.tensor, status);
    }
  }
}

}  // namespace

int32_t em_tflite_place(void* library, void* interpreter, const em_planfile* file, void* arena, int64_t bytes) {
  if (interpreter == nullptr || file == nullptr || arena == nullptr) {
    edgemem::set_error("an interpreter, a plan file and an arena are needed");
    return EM_REFUSED;
  }
  return edgemem::guarded<int32_t>(EM_REFUSED, [&] {
    place(library, interpreter, *file, static_cast<std::byte*>(arena), bytes);
    return EM_OK;
  });
}
