#include "remat_runtime/serving.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "arena/totals.h"

namespace edgemem::remat {

namespace {

struct Serving {
  RecursiveLock lock;
  Runtime* active = nullptr;
  std::vector<std::unique_ptr<Runtime>> kept;
  std::atomic<std::int64_t> count{0};  // of those kept: most processes have none, and need no lock
};

// Blocks may be freed after static objects are gone.
Serving& serving() {
  static auto* const all = new Serving;
  return *all;
}

void forget(const Runtime& runtime) {
  std::erase_if(serving().kept, [&runtime](const auto& kept) { return kept.get() == &runtime; });
  serving().count = static_cast<std::int64_t>(serving().kept.size());
}

}  // namespace

RecursiveLock& serving_lock() { return serving().lock; }

Runtime* active() { return serving().active; }

void set_active(Runtime* runtime) { serving().active = runtime; }

Runtime* keep(std::unique_ptr<Runtime> runtime) {
  serving().kept.push_back(std::move(runtime));
  serving().count = static_cast<std::int64_t>(serving().kept.size());
  return serving().kept.back().get();
}

void end(Runtime& runtime) {
  if (serving().active == &runtime) {
    serving().active = nullptr;
  }
  runtime.stop();
  if (runtime.is_empty()) {
    forget(runtime);
  }
}

bool allocate_under_budget(std::int64_t bytes, void*& block) noexcept {
  if (serving().count == 0) {
    return false;
  }
  const std::scoped_lock lock(serving().lock);
  if (serving().active == nullptr) {
    return false;
  }
  try {
    block = serving().active->allocate(bytes);
  } catch (const std::exception& error) {
    set_error("%s", error.what());
  }
  return true;
}

bool free_under_budget(void* block) noexcept {
  if (serving().count == 0) {
    return false;
  }
  const std::scoped_lock lock(serving().lock);
  const auto found = std::find_if(serving().kept.begin(), serving().kept.end(),
                                  [block](const auto& kept) { return kept->contains(block); });
  if (found == serving().kept.end()) {
    return false;
  }
  Runtime& runtime = **found;
  try {
    runtime.free(block);
    if (runtime.is_empty()) {
      forget(runtime);
    }
  } catch (const std::exception& error) {  // what lies in the block stays
    set_error("%s", error.what());
  }
  return true;
}

}  // namespace edgemem::remat
