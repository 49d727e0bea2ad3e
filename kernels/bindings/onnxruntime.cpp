// How the allocator gets into ONNX Runtime, without its headers.
//
// ONNX Runtime loads the library for a session's options and calls RegisterCustomOps with its table of functions. The
// table only ever grows at its end, so a slot keeps its number in every 1.x; the version is checked before a slot is
// used. The allocator is registered in the process's one environment, and serves those sessions that ask for the
// environment's allocators (`session.use_env_allocators`); all others keep their own.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

#include "arena/blocks.h"
#include "bindings/shortage.h"
#include "replay/edgemem_arena.h"

namespace {

struct OrtApiBase {
  const void* const* (*get_api)(uint32_t version);
  const char* (*get_version_string)();
};

struct OrtAllocator {
  uint32_t version;
  void* (*allocate)(OrtAllocator*, std::size_t);
  void (*release)(OrtAllocator*, void*);
  const void* (*info)(const OrtAllocator*);
  void* (*reserve)(OrtAllocator*, std::size_t);  // since 1.18
  void* later[11];                               // null: newer members, looked at by their version or for null
};

enum Slot : std::size_t {
  kCreateStatus = 0,
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateCpuMemoryInfo = 69,
  kRegisterAllocator = 176,
};

constexpr uint32_t kApiVersion = 14;        // the oldest table with every slot above
constexpr uint32_t kAllocatorVersion = 18;  // with `reserve`, so that weights are told from activations
constexpr int kOldestMinor =
    23;  // before it, Python's sessions have an environment that no allocator can be registered with
constexpr int kLogError = 3;
constexpr int kFail = 1;

struct State {
  std::mutex mutex;
  char version[64] = "";
  char error[512] = "";
  void* environment = nullptr;
  void* info = nullptr;
  OrtAllocator allocator{};
  bool registered = false;
};

State& state() {
  static State* one = new State;
  return *one;
}

template <typename Function>
Function slot(const void* const* api, Slot number) {
  return reinterpret_cast<Function>(const_cast<void*>(api[number]));
}

// Deviation: the one exception that leaves the library. ONNX Runtime 1.31.1 does not look whether a block is null, it
// writes to it (measured: a segmentation fault). It calls from C++, and makes an error of what its own allocators throw
// when memory is short; so this is thrown, too.
void* there(void* block, std::size_t size) {
  if (block == nullptr && size != 0) {
    edgemem::throw_bad_alloc();
  }
  return block;
}

void* ort_allocate(OrtAllocator*, std::size_t size) { return there(em_allocate(size), size); }
void ort_release(OrtAllocator*, void* block) { em_free(block); }
void* ort_reserve(OrtAllocator*, std::size_t size) { return there(edgemem::reserve(size), size); }
const void* ort_info(const OrtAllocator*) { return state().info; }

// False, with the message kept, if a call gave back a status other than null.
bool succeeded(State& one, const void* const* api, const void* status, const char* what) {
  if (status == nullptr) {
    return true;
  }
  const auto message = slot<const char* (*)(const void*)>(api, kGetErrorMessage);
  std::snprintf(one.error, sizeof one.error, "%s: %s", what, message(status));
  return false;
}

bool known_version(State& one, const OrtApiBase* base) {
  const char* version = base == nullptr || base->get_version_string == nullptr ? nullptr : base->get_version_string();
  std::snprintf(one.version, sizeof one.version, "%s", version == nullptr ? "unknown" : version);
  int major = 0;
  int minor = 0;
  if (std::sscanf(one.version, "%d.%d", &major, &minor) == 2 && major == 1 && minor >= kOldestMinor) {
    return true;
  }
  std::snprintf(one.error, sizeof one.error, "ONNX Runtime %s is not known to edgemem, which knows 1.%d and later 1.x",
                one.version, kOldestMinor);
  return false;
}

bool install(State& one, const void* const* api) {
  using CreateEnv = void* (*)(int, const char*, void**);
  using CreateInfo = void* (*)(int, int, void**);
  using Register = void* (*)(void*, OrtAllocator*);
  if (one.environment == nullptr &&
      !succeeded(one, api, slot<CreateEnv>(api, kCreateEnv)(kLogError, "edgemem", &one.environment), "CreateEnv")) {
    return false;
  }
  if (one.info == nullptr &&
      !succeeded(one, api, slot<CreateInfo>(api, kCreateCpuMemoryInfo)(0, 0, &one.info), "CreateCpuMemoryInfo")) {
    return false;
  }
  one.allocator.version = kAllocatorVersion;
  one.allocator.allocate = ort_allocate;
  one.allocator.release = ort_release;
  one.allocator.info = ort_info;
  one.allocator.reserve = ort_reserve;
  return succeeded(one, api, slot<Register>(api, kRegisterAllocator)(one.environment, &one.allocator),
                   "RegisterAllocator");
}

}  // namespace

void* RegisterCustomOps(void* /*options*/, const void* api_base) {
  State& one = state();
  const std::scoped_lock lock(one.mutex);
  if (one.registered) {
    return nullptr;
  }
  const auto* base = static_cast<const OrtApiBase*>(api_base);
  one.error[0] = '\0';
  if (!known_version(one, base)) {
    return nullptr;  // em_ort_error tells; the session itself is none the worse
  }
  const void* const* api = base->get_api == nullptr ? nullptr : base->get_api(kApiVersion);
  if (api == nullptr) {
    std::snprintf(one.error, sizeof one.error, "ONNX Runtime %s has no API of version %u", one.version, kApiVersion);
    return nullptr;
  }
  one.registered = install(one, api);
  if (!one.registered) {
    return slot<void* (*)(int, const char*)>(api, kCreateStatus)(kFail, one.error);
  }
  return nullptr;
}

const char* em_ort_version(void) { return state().version; }

const char* em_ort_error(void) { return state().error; }
