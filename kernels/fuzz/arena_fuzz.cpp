// The C ABI of the replay allocator, called in any order with any arguments that its contract allows.
//
// A case is a list of calls. Blocks that are alive are filled with a pattern of their own, which must still be there
// when they are freed: so no two of them share bytes, whatever is recorded, replayed, released or refused meanwhile.
// The program keeps a list of the events of each run, which is what the record must hold.
#include <memory>

#include "fuzz/bytes.h"
#include "fuzz/placed_requests.h"
#include "replay/edgemem_arena.h"

namespace {

constexpr std::size_t kMostTouched = 1 << 16;  // bytes of a block that are filled
constexpr std::int64_t kMostMemory = 1 << 20;  // of an arena that is not refused
constexpr std::size_t kMostHeld = 12;

int take_memory(void** block, std::size_t size) {
  if (size > kMostTouched) return 1;
  *block = std::malloc(size);
  return *block == nullptr ? 1 : 0;
}

int give_memory(void* block) {
  std::free(block);
  return 0;
}

struct Block {
  unsigned char* begin;
  std::size_t size;
  unsigned char pattern;
  bool device;
  std::int64_t run;  // that asked for it; 0: none
  std::int64_t request;
};

struct Context {
  em_context* address;
  std::int32_t kind;
};

// An active context, and what its thread has done since it began.
struct Run {
  Context context;
  std::int64_t number;
  bool recorded;
  std::int64_t most_noted;  // events
  std::int64_t requests;
  std::vector<em_event> events;
};

class Program {
 public:
  explicit Program(Bytes bytes) : bytes_(bytes) {
    em_totals_get(&before_);
    em_cuda_source(take_memory, give_memory);
  }

  void run() {
    for (int steps = 0; !bytes_.is_empty() && steps < 2000; ++steps) step();
    end();
  }

 private:
  void step() {
    switch (bytes_.below(18)) {
      case 0:
        return make_arena();
      case 1:
        return make_plan();
      case 2:
        return make_context();
      case 3:
        return release();
      case 4:
        return begin_record();
      case 5:
      case 6:
        return begin_replay();
      case 7:
        return end_run();
      case 8:
        return look();
      case 9:
        return em_fail_after(bytes_.below(8) == 0 ? static_cast<std::int64_t>(bytes_.below(3)) : -1);
      case 10:
      case 11:
      case 12:
        return allocate();
      case 13:
        HOLDS(em_trim() >= 0);
        return;
      case 14:
        return drop_events();
      default:
        return free_one();
    }
  }

  void make_arena() {
    const std::int64_t size = bytes_.number();
    const bool wrapped = bytes_.below(4) == 0;
    if (arenas_.size() >= kMostHeld || (size > kMostMemory && size <= (std::int64_t{1} << 56))) return;
    em_arena* arena = nullptr;
    if (wrapped) {
      const std::size_t real = size > 0 && size <= kMostMemory ? static_cast<std::size_t>(size) : 1;
      memories_.push_back(std::make_unique<unsigned char[]>(real + 64));
      const auto address = reinterpret_cast<std::uintptr_t>(memories_.back().get());
      arena = em_arena_wrap(memories_.back().get() + (64 - address % 64) % 64, size, kind());
      if (arena != nullptr && bytes_.below(2) == 0) {  // one on top of it is refused
        HOLDS(em_arena_wrap(em_arena_base(arena), 1, EM_HOST) == nullptr);
      }
    } else if (!arenas_.empty() && bytes_.below(3) == 0) {  // null for most arenas: they have no parts
      arena = em_arena_part(arenas_[bytes_.below(arenas_.size())], static_cast<std::int64_t>(64 * bytes_.below(4)), size);
    } else {
      arena = em_arena_create(size, static_cast<std::int32_t>(bytes_.below(4)));
    }
    if (arena == nullptr) return;
    HOLDS(size >= 0 && em_arena_base(arena) != nullptr && em_arena_size(arena) >= size && em_arena_left(arena) == 0);
    arenas_.push_back(arena);
  }

  // Mostly a right one that the program then follows; sometimes numbers at random.
  void make_plan() {
    if (plans_.size() >= kMostHeld) return;
    const std::size_t count = bytes_.below(12);
    std::vector<std::int64_t> events = bytes_.numbers(count);
    std::vector<std::int64_t> offsets = bytes_.numbers(bytes_.below(12));
    std::int64_t size = bytes_.number();
    std::int64_t alignment = bytes_.below(4) == 0 ? bytes_.number() : std::int64_t{1} << bytes_.below(7);
    if (bytes_.below(4) != 0) {
      alignment = 64;
      size = place_requests(bytes_, 2 * count, events, offsets);
    }
    em_plan* plan = em_plan_create(events.data(), static_cast<std::int64_t>(events.size()), offsets.data(),
                                   static_cast<std::int64_t>(offsets.size()), size, alignment);
    if (plan == nullptr) {
      HOLDS(em_last_error()[0] != '\0');
      return;
    }
    plans_.push_back(plan);
    expected_.push_back(events);
  }

  void make_context() {
    if (contexts_.size() >= kMostHeld) return;
    const std::int32_t asked = kind();
    em_context* context = em_context_create(asked);
    if (context != nullptr) contexts_.push_back({context, asked});
  }

  // One of those there are; of address null if there is none.
  Context any_context() {
    return contexts_.empty() ? Context{nullptr, EM_HOST} : contexts_[bytes_.below(contexts_.size())];
  }

  void release() {
    const std::size_t what = bytes_.below(3);
    if (what == 0 && !arenas_.empty()) {
      const std::size_t k = bytes_.below(arenas_.size());
      em_arena_release(arenas_[k]);
      arenas_.erase(arenas_.begin() + static_cast<std::ptrdiff_t>(k));
    } else if (what == 1 && !plans_.empty()) {
      const std::size_t k = bytes_.below(plans_.size());
      em_plan_release(plans_[k]);
      plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(k));
      expected_.erase(expected_.begin() + static_cast<std::ptrdiff_t>(k));
    } else if (!contexts_.empty()) {
      const std::size_t k = bytes_.below(contexts_.size());
      const bool active = run_of(contexts_[k].address) != active_.end();
      HOLDS((em_context_destroy(contexts_[k].address) == EM_OK) != active);
      if (!active) contexts_.erase(contexts_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  std::vector<Run>::iterator run_of(const em_context* context) {
    return std::find_if(active_.begin(), active_.end(), [&](const Run& run) { return run.context.address == context; });
  }

  // The run that serves requests of a kind, or null.
  Run* run_of_kind(std::int32_t kind) {
    const auto found =
        std::find_if(active_.begin(), active_.end(), [&](const Run& run) { return run.context.kind == kind; });
    return found == active_.end() ? nullptr : &*found;
  }

  void begin_record() {
    const Context context = any_context();
    const std::int64_t most = bytes_.number();
    const std::int32_t status = em_begin_record(context.address, most);
    if (context.address != nullptr) HOLDS(status == EM_OK || status == EM_BUSY);
    if (status == EM_OK) active_.push_back({context, ++runs_, true, std::max<std::int64_t>(most, 0), 0, {}});
  }

  void begin_replay() {
    const Context context = any_context();
    em_arena* arena = arenas_.empty() ? nullptr : arenas_[bytes_.below(arenas_.size())];
    const std::size_t k = plans_.empty() ? 0 : bytes_.below(plans_.size());
    em_plan* plan = plans_.empty() ? nullptr : plans_[k];
    const auto flags = static_cast<std::int32_t>(bytes_.below(4));
    // Poison fills what is free of the arena, so that nothing of it may be alive.
    if (em_begin_replay(context.address, plan, arena, flags) != EM_OK) return;
    HOLDS(em_arena_left(arena) == 0);
    const bool recorded = (flags & EM_RECORD) != 0;
    active_.push_back({context, ++runs_, recorded, recorded ? INT64_MAX : 0, 0, {}});
    if (bytes_.below(3) != 0) follow(expected_[k]);
  }

  void drop_events() {
    const Context context = any_context();
    const em_event* events = nullptr;
    const std::int64_t before = em_events(context.address, &events);
    em_events_drop(context.address);
    const bool active = run_of(context.address) != active_.end();
    HOLDS(em_events(context.address, &events) == (active ? before : 0));
  }

  // Ask as the plan expects, or for less, up to some event; and free as it does, or later.
  void follow(const std::vector<std::int64_t>& events) {
    std::vector<Block> made;
    std::size_t left = bytes_.below(2) == 0 ? events.size() : bytes_.below(events.size() + 1);
    const std::size_t smaller = bytes_.below(4);
    const bool is_late = bytes_.below(3) == 0;
    for (const std::int64_t event : events) {
      if (left-- == 0) break;
      if (event > 0 && blocks_.size() + made.size() < 64) {
        Block block{};
        const auto less = std::min(static_cast<std::int64_t>(bytes_.below(smaller * 16 + 1)), event - 1);
        take(static_cast<std::size_t>(event - less), false, block);
        made.push_back(block);  // of begin null if there was no memory
      } else if (event < 0 && static_cast<std::size_t>(-(event + 1)) < made.size()) {
        Block& block = made[static_cast<std::size_t>(-(event + 1))];
        if (block.begin == nullptr || (is_late && bytes_.below(2) == 0)) continue;
        give(block);
        block.begin = nullptr;
      }
    }
    for (const Block& block : made) {
      if (block.begin != nullptr) blocks_.push_back(block);
    }
  }

  void end_run() {
    const Context context = any_context();
    em_stats stats{};
    const bool wanted = bytes_.below(4) != 0;
    const std::int32_t status = em_end(context.address, wanted ? &stats : nullptr);
    const auto found = run_of(context.address);
    HOLDS((status == EM_OK) == (found != active_.end()));
    if (status != EM_OK) return;
    const Run run = *found;
    active_.erase(found);
    check_record(run);
    if (!wanted) return;
    const auto events = static_cast<std::int64_t>(run.events.size());
    HOLDS(stats.requests == run.requests && stats.events == events);
    HOLDS(stats.hits >= 0 && stats.misses >= 0 && stats.hits + stats.misses <= stats.requests);
    HOLDS(stats.peak >= stats.heap_peak && stats.heap_peak >= 0 && stats.left >= 0);
    HOLDS(stats.bail >= -1 && stats.bail <= events);
    const std::int64_t unserved = stats.requests - stats.hits - stats.misses;
    HOLDS(stats.failed == unserved + (run.recorded ? events - noted(run) : 0));
  }

  static std::int64_t noted(const Run& run) {
    return std::min(run.most_noted, static_cast<std::int64_t>(run.events.size()));
  }

  void check_record(const Run& run) {
    const em_event* events = nullptr;
    HOLDS(em_events(run.context.address, &events) == noted(run));
    for (std::int64_t k = 0; k < noted(run); ++k) {
      const em_event& expected = run.events[static_cast<std::size_t>(k)];
      HOLDS(events[k].size == expected.size && events[k].request == expected.request);
    }
  }

  void look() {
    const em_event* events = nullptr;
    const std::int64_t count = em_events(any_context().address, &events);
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum ^= events[k].size + events[k].request;
    em_totals totals;
    em_totals_get(&totals);
    HOLDS(totals.contexts >= before_.contexts && totals.heap_live >= before_.heap_live && sum != INT64_MIN + 7);
    HOLDS(std::strlen(em_last_error()) < 512);
    for (const std::int32_t kind : {EM_HOST, EM_DEVICE}) {
      const Run* run = run_of_kind(kind);
      HOLDS(em_active(kind) == (run == nullptr ? nullptr : run->context.address));
    }
  }

  void allocate() {
    const std::int64_t size = bytes_.number();
    Block block{};
    if (blocks_.size() < 64 && take(static_cast<std::size_t>(size), bytes_.below(8) == 0, block)) {
      blocks_.push_back(block);
    }
  }

  void free_one() {
    if (blocks_.empty()) return em_free(nullptr);
    const std::size_t k = bytes_.below(blocks_.size());
    give(blocks_[k]);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  // Memory of more than a few megabytes is refused by the test, and above the limit by the allocator.
  bool take(std::size_t size, bool device, Block& block) {
    const bool impossible = static_cast<std::int64_t>(size) < 0 || size > std::size_t{1} << 56;
    if (size > kMostTouched && !impossible) return false;
    void* memory = device ? em_cuda_alloc(size) : em_allocate(size);
    HOLDS(memory == nullptr || (size > 0 && !impossible));
    Run* run = size == 0 ? nullptr : run_of_kind(device ? EM_DEVICE : EM_HOST);
    const std::int64_t request = run == nullptr ? 0 : run->requests++;
    if (memory == nullptr) return false;
    if (run != nullptr) run->events.push_back({static_cast<std::int64_t>(size), request, 0, 0});
    block = {static_cast<unsigned char*>(memory), size, ++pattern_, device, run == nullptr ? 0 : run->number, request};
    if (!device) std::memset(memory, block.pattern, size);
    return true;
  }

  void give(const Block& block) {
    Run* run = run_of_kind(block.device ? EM_DEVICE : EM_HOST);
    if (run != nullptr && run->number == block.run) run->events.push_back({0, block.request, 0, 0});
    if (block.device) return em_cuda_free(block.begin);
    for (std::size_t k = 0; k < block.size; ++k) HOLDS(block.begin[k] == block.pattern);
    em_free(block.begin);
  }

  void end() {
    em_fail_after(-1);
    for (const Run& run : active_) {
      HOLDS(em_end(run.context.address, nullptr) == EM_OK);
      check_record(run);
    }
    active_.clear();
    for (const Block& block : blocks_) give(block);
    for (const Context& context : contexts_) HOLDS(em_context_destroy(context.address) == EM_OK);
    for (em_plan* plan : plans_) em_plan_release(plan);
    for (em_arena* arena : arenas_) em_arena_release(arena);
    em_totals after;
    em_totals_get(&after);
    HOLDS(after.contexts == before_.contexts && after.arenas == before_.arenas);
    HOLDS(after.arena_bytes == before_.arena_bytes && after.heap_live == before_.heap_live);
  }

  std::int32_t kind() {
    const std::size_t number = bytes_.below(16);
    return number < 12 ? EM_HOST : number < 15 ? EM_DEVICE : 7;
  }

  Bytes bytes_;
  em_totals before_{};
  std::vector<em_arena*> arenas_;
  std::vector<em_plan*> plans_;
  std::vector<std::vector<std::int64_t>> expected_;  // the events of each plan
  std::vector<Context> contexts_;
  std::vector<Run> active_;
  std::int64_t runs_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<unsigned char[]>> memories_;  // of wrapped arenas; outlive them
  unsigned char pattern_ = 0;
};

}  // namespace

// Memory that is too large is null, as everywhere, and not the end of the program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(Bytes(data, size));
  program.run();
  return 0;
}
