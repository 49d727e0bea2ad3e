// em_remat_* of the C ABI: checks what it is given, takes the lock, and lets nothing be thrown.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>

#include "arena/totals.h"
#include "remat_runtime/runtime.h"
#include "remat_runtime/serving.h"
#include "replay/edgemem_remat.h"
#include "replay/loop_device.h"

using edgemem::remat::Runtime;
using edgemem::remat::ValueId;

struct em_remat {
  Runtime* runtime = nullptr;  // null once it has ended
};

namespace {

// All that there ever were: storages that were emptied and never filled again name them when they go.
std::deque<em_remat>& handles() {
  static auto* const all = new std::deque<em_remat>;
  return *all;
}

std::span<const ValueId> values_of(const std::int64_t* values, std::int64_t count) {
  return {values, static_cast<std::size_t>(std::max<std::int64_t>(count, 0))};
}

// How many values there are; `out` is where they are.
std::int64_t given(std::span<const ValueId> values, const std::int64_t** out) {
  *out = values.data();
  return static_cast<std::int64_t>(values.size());
}

// What the function gives; `failed` if there is no runtime any more, or it throws.
template <typename Result, typename Function>
Result with(em_remat* remat, Result failed, Function function) noexcept {
  try {
    const std::scoped_lock lock(edgemem::remat::serving_lock());
    if (remat == nullptr || remat->runtime == nullptr) {
      edgemem::set_error("there is no such runtime, or it has ended");
      return failed;
    }
    return function(*remat->runtime);
  } catch (const std::exception& error) {
    edgemem::set_error("%s", error.what());
    return failed;
  }
}

// The same for a function that gives nothing.
template <typename Function>
void act(em_remat* remat, Function function) noexcept {
  with(remat, 0, [&](Runtime& runtime) {
    function(runtime);
    return 0;
  });
}

bool is_valid(const em_remat_rules& rules) {
  return rules.heuristic >= 0 && rules.heuristic <= 2 && rules.search >= 0 && rules.search <= 2 && rules.fit >= 0 &&
         rules.fit <= 1;
}

}  // namespace

em_remat* em_remat_create(std::int64_t budget, const em_remat_rules* rules, em_remat_evict evict, em_remat_move move,
                          std::int32_t flags) {
  using namespace edgemem::remat;
  if (rules == nullptr || evict == nullptr || move == nullptr || !is_valid(*rules) || (flags & ~EM_POISON) != 0) {
    edgemem::set_error("rules or flags of a runtime are unknown");
    return nullptr;
  }
  try {
    const Rules chosen{.heuristic = static_cast<Heuristic>(rules->heuristic),
                       .search = static_cast<Search>(rules->search),
                       .fit = static_cast<Fit>(rules->fit),
                       .partition = rules->partition != 0,
                       .in_place = rules->in_place != 0,
                       .constants_at_ends = rules->constants_at_ends != 0,
                       .small_apart = rules->small_apart != 0};
    const std::scoped_lock lock(serving_lock());
    em_remat& made = handles().emplace_back();
    made.runtime = keep(std::make_unique<Runtime>(budget, chosen, evict, move, (flags & EM_POISON) != 0));
    return &made;
  } catch (const std::exception&) {
    edgemem::set_error("no memory for a pool of %lld bytes", static_cast<long long>(budget));
    return nullptr;
  }
}

void em_remat_destroy(em_remat* remat) {
  act(remat, [remat](Runtime& runtime) {
    remat->runtime = nullptr;
    edgemem::remat::end(runtime);
  });
}

std::int32_t em_remat_start(em_remat* remat) {
  edgemem::LoopDevice* host = edgemem::LoopDevice::find(EM_HOST_MEMORY);
  {
    const std::scoped_lock lock(host->mutex());
    if (host->active() != nullptr) {
      edgemem::set_error("a loop serves the host's memory; stop it first");
      return EM_BUSY;
    }
  }
  return with(remat, std::int32_t{EM_REFUSED}, [](Runtime& runtime) {
    if (edgemem::remat::active() != nullptr) {
      edgemem::set_error("another program runs under a budget");
      return std::int32_t{EM_BUSY};
    }
    edgemem::remat::set_active(&runtime);
    return std::int32_t{EM_OK};
  });
}

void em_remat_lift(em_remat* remat) {
  act(remat, [](Runtime& runtime) { runtime.lift(); });
}

std::int32_t em_remat_holds(em_remat* remat, const void* block) {
  return with(remat, std::int32_t{0}, [&](Runtime& runtime) { return std::int32_t{runtime.contains(block)}; });
}

std::int64_t em_remat_constant(em_remat* remat, void* block, void* storage) {
  return with(remat, std::int64_t{-1}, [&](Runtime& runtime) { return runtime.add_constant(block, storage); });
}

std::int64_t em_remat_lock(em_remat* remat, const std::int64_t* values, std::int64_t count, std::int32_t kind) {
  return with(remat, std::int64_t{-1}, [&](Runtime& runtime) {
    return runtime.lock(values_of(values, count),
                        (kind & 1) != 0 ? edgemem::remat::Kind::kExpensive : edgemem::remat::Kind::kCheap,
                        (kind & 2) != 0);
  });
}

void em_remat_unlock(em_remat* remat, const std::int64_t* values, std::int64_t count) {
  act(remat, [&](Runtime& runtime) { runtime.unlock(values_of(values, count)); });
}

std::int32_t em_remat_ran(em_remat* remat, std::int64_t cost, const std::int64_t* reads, std::int64_t count,
                          em_remat_result* results, std::int64_t results_count) {
  return with(remat, std::int32_t{EM_REFUSED}, [&](Runtime& runtime) {
    if (results_count <= 0) {
      runtime.ran_without_results(cost, values_of(reads, count));
      return std::int32_t{EM_OK};
    }
    const bool is_done = runtime.ran(cost, values_of(reads, count), {results, static_cast<std::size_t>(results_count)});
    return std::int32_t{is_done ? EM_OK : EM_REFUSED};
  });
}

std::int64_t em_remat_make_constant(em_remat* remat, std::int64_t value) {
  return with(remat, std::int64_t{-1}, [&](Runtime& runtime) { return runtime.make_constant(value); });
}

std::int32_t em_remat_remade(em_remat* remat, std::int64_t value, void* block, void* storage) {
  return with(remat, std::int32_t{EM_REFUSED}, [&](Runtime& runtime) {
    return std::int32_t{runtime.remade(value, block, storage) ? EM_OK : EM_REFUSED};
  });
}

std::int32_t em_remat_take_over(em_remat* remat, std::int64_t old_version, std::int64_t new_version, void* storage) {
  return with(remat, std::int32_t{EM_REFUSED}, [&](Runtime& runtime) {
    return std::int32_t{runtime.take_over(old_version, new_version, storage) ? EM_OK : EM_REFUSED};
  });
}

void em_remat_repeated(em_remat* remat, std::int64_t value, std::int64_t cost) {
  act(remat, [&](Runtime& runtime) { runtime.repeated(value, cost); });
}

void* em_remat_lend(em_remat* remat, std::int64_t value, void* storage) {
  return with(remat, static_cast<void*>(nullptr), [&](Runtime& runtime) { return runtime.lend(value, storage); });
}

void em_remat_pin(em_remat* remat, std::int64_t value) {
  act(remat, [&](Runtime& runtime) { runtime.pin(value); });
}

void em_remat_spare(em_remat* remat, std::int64_t value) {
  act(remat, [&](Runtime& runtime) { runtime.spare(value); });
}

void em_remat_fix(em_remat* remat, std::int64_t value) {
  act(remat, [&](Runtime& runtime) { runtime.fix(value); });
}

void em_remat_clear(em_remat* remat) {
  act(remat, [](Runtime& runtime) { runtime.clear(); });
}

std::int32_t em_remat_is_resident(em_remat* remat, std::int64_t value) {
  return with(remat, std::int32_t{0}, [&](Runtime& runtime) { return std::int32_t{runtime.is_resident(value)}; });
}

std::int32_t em_remat_is_recomputable(em_remat* remat, std::int64_t value) {
  return with(remat, std::int32_t{0}, [&](Runtime& runtime) { return std::int32_t{runtime.is_recomputable(value)}; });
}

std::int64_t em_remat_dependents(em_remat* remat, std::int64_t value, const std::int64_t** out) {
  return with(remat, std::int64_t{-1}, [&](Runtime& runtime) { return given(runtime.dependents(value), out); });
}

std::int64_t em_remat_take_forgotten(em_remat* remat, const std::int64_t** out) {
  return with(remat, std::int64_t{0}, [&](Runtime& runtime) { return given(runtime.take_forgotten(), out); });
}

void em_remat_dropped(em_remat* remat, std::int64_t value) {
  act(remat, [&](Runtime& runtime) { runtime.dropped(value); });
}

void em_remat_stats_get(em_remat* remat, em_remat_stats* out) {
  if (out == nullptr) {
    return;
  }
  *out = with(remat, em_remat_stats{}, [](Runtime& runtime) { return runtime.stats(); });
}
