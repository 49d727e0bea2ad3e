// How runtimes reach the allocator: CUDA's external functions, and ONNX Runtime's tables.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "replay/edgemem_arena.h"
#include "tests/arena_runs.h"
#include "tests/check.h"
#include "tests/registry.h"

TEST(device_memory_goes_by_the_same_guard) {
  static std::map<void*, size_t> device;
  static int64_t given = 0;
  CHECK(em_cuda_alloc(8) == nullptr);  // no source yet
  em_cuda_source(
      [](void** out, size_t size) {
        *out = std::malloc(size);
        device[*out] = size;
        ++given;
        return *out == nullptr ? 1 : 0;
      },
      [](void* block) {
        device.erase(block);
        std::free(block);
        return 0;
      });
  em_context* context = em_context_create(EM_DEVICE);
  em_context* host = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, kMany) == EM_OK);
  CHECK(em_begin_record(host, kMany) == EM_OK);  // both kinds at once
  void* a = em_cuda_alloc(512);
  void* b = em_cuda_alloc(256);
  em_free(em_allocate(3));
  em_cuda_free(a);
  em_cuda_empty_cache();
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK && stats.events == 3 && stats.peak == 768);
  CHECK(em_end(host, &stats) == EM_OK && stats.events == 2);
  em_cuda_free(b);
  CHECK(device.empty() && given == 2);

  alignas(64) static char memory[768];
  em_arena* arena = em_arena_wrap(memory, 768, EM_DEVICE);
  em_plan* plan = Plan{{512, 256, -1}, {0, -1}, 512}.make();
  CHECK(em_begin_replay(context, plan, arena, EM_POISON) == EM_OK);
  a = em_cuda_alloc(512);
  CHECK(a == memory && memory[0] == 0);  // device memory is not for the host to poison
  b = em_cuda_alloc(256);
  CHECK(b != nullptr && device.size() == 1);
  em_cuda_free(a);
  CHECK(em_end(context, &stats) == EM_OK);
  CHECK(stats.hits == 1 && stats.misses == 1 && stats.bail == -1);
  em_cuda_free(b);

  CHECK(em_begin_replay(context, plan, arena, 0) == EM_OK);
  a = em_cuda_alloc(513);
  CHECK(a != memory && device.size() == 1);
  em_cuda_free(a);
  CHECK(em_end(context, &stats) == EM_OK && stats.bail == 0);
  CHECK(device.empty());
  em_plan_release(plan);
  em_arena_release(arena);
  CHECK(em_context_destroy(context) == EM_OK && em_context_destroy(host) == EM_OK);
  em_cuda_source(nullptr, nullptr);
}

namespace ort {

// The parts of ONNX Runtime's tables that the library may use.
struct Allocator {
  uint32_t version;
  void* (*allocate)(Allocator*, size_t);
  void (*release)(Allocator*, void*);
  const void* (*info)(const Allocator*);
  void* (*reserve)(Allocator*, size_t);
};

struct Base {
  const void* const* (*get_api)(uint32_t);
  const char* (*get_version_string)();
};

const void* table[178];
const char* version = "1.31.1";
bool without_api = false;
bool refuses = false;
Allocator* registered = nullptr;
char status[512];

void* create_status(int /*code*/, const char* text) {
  std::snprintf(status, sizeof status, "%s", text);
  return status;
}
const char* message(const void* text) { return static_cast<const char*>(text); }
void* create_environment(int, const char*, void** out) {
  *out = &table;
  return nullptr;
}
void* create_info(int, int, void** out) {
  *out = &version;
  return nullptr;
}
void* register_allocator(void*, Allocator* allocator) {
  if (refuses) {
    return create_status(1, "no");
  }
  registered = allocator;
  return nullptr;
}

const Base* base() {
  table[0] = reinterpret_cast<const void*>(create_status);
  table[2] = reinterpret_cast<const void*>(message);
  table[3] = reinterpret_cast<const void*>(create_environment);
  table[69] = reinterpret_cast<const void*>(create_info);
  table[176] = reinterpret_cast<const void*>(register_allocator);
  static const Base one{
      [](uint32_t asked) -> const void* const* { return without_api || asked > 31 ? nullptr : table; },
      [] { return version; }};
  return &one;
}

}  // namespace ort

TEST(onnx_runtime_gets_the_allocator_or_a_reason) {
  CHECK(std::string(em_ort_version()).empty() && std::string(em_ort_error()).empty());
  for (const char* odd : {"2.0.0", "1.22.1", "nonsense", "", "0.5"}) {
    ort::version = odd;
    CHECK(RegisterCustomOps(nullptr, ort::base()) == nullptr);
    CHECK(std::strstr(em_ort_error(), "not known to edgemem") != nullptr);
    CHECK(ort::registered == nullptr);
  }
  ort::version = nullptr;
  CHECK(RegisterCustomOps(nullptr, ort::base()) == nullptr);
  CHECK(std::strstr(em_ort_error(), "unknown") != nullptr);
  CHECK(RegisterCustomOps(nullptr, nullptr) == nullptr);
  ort::version = "1.31.1";
  ort::without_api = true;
  CHECK(RegisterCustomOps(nullptr, ort::base()) == nullptr);
  CHECK(std::strstr(em_ort_error(), "no API") != nullptr);
  ort::without_api = false;
  ort::refuses = true;
  CHECK(RegisterCustomOps(nullptr, ort::base()) == ort::status);
  CHECK(std::strstr(em_ort_error(), "RegisterAllocator: no") != nullptr);
  ort::refuses = false;
  CHECK(RegisterCustomOps(nullptr, ort::base()) == nullptr);
  CHECK(std::string(em_ort_error()).empty() && std::string(em_ort_version()) == "1.31.1");

  ort::Allocator* allocator = ort::registered;
  CHECK(allocator != nullptr && allocator->version == 18 && allocator->info(allocator) == &ort::version);
  const em_totals before = everything();
  Session session(small_plan());
  session.begin();
  void* weights = allocator->reserve(allocator, 5000);  // is never part of the plan
  void* a = allocator->allocate(allocator, 100);
  CHECK(a == em_arena_base(session.arena));
  CHECK(everything().reserve_live == before.reserve_live + 5000);
  CHECK(session.end().requests == 1);
  allocator->release(allocator, a);
  allocator->release(allocator, weights);
  allocator->release(allocator, nullptr);
  CHECK(everything().reserve_live == before.reserve_live);
  CHECK(RegisterCustomOps(nullptr, ort::base()) == nullptr);  // once is enough

  // ONNX Runtime does not look whether a block is null.
  em_fail_after(0);
  for (auto* take : {allocator->allocate, allocator->reserve}) {
    bool thrown = false;
    try {
      take(allocator, 100);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    CHECK(thrown && take(allocator, 0) == nullptr);
  }
  em_fail_after(-1);
}
