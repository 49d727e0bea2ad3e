// The C ABI of the replay allocator, called in any order with any arguments that its contract allows.
//
// A case is a list of calls. Blocks that are alive are filled with a pattern of their own, which must still be there
// when they are freed: so no two of them share bytes, whatever is recorded, replayed, released or refused meanwhile.
#include <memory>

#include "fuzz/bytes.h"
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
    switch (bytes_.below(16)) {
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
    } else {
      arena = em_arena_create(size, static_cast<std::int32_t>(bytes_.below(4)));
    }
    if (arena == nullptr) return;
    HOLDS(size >= 0 && em_arena_base(arena) != nullptr && em_arena_size(arena) >= size && em_arena_left(arena) == 0);
    arenas_.push_back(arena);
  }

  // Mostly one that the program then follows; sometimes numbers at random.
  void make_plan() {
    if (plans_.size() >= kMostHeld) return;
    const std::size_t count = bytes_.below(12);
    std::vector<std::int64_t> events = bytes_.numbers(count);
    std::vector<std::int64_t> offsets = bytes_.numbers(bytes_.below(12));
    std::int64_t size = bytes_.number();
    std::int64_t alignment = bytes_.below(4) == 0 ? bytes_.number() : std::int64_t{1} << bytes_.below(7);
    if (bytes_.below(4) != 0) {  // requests end to end, freed in order
      events.clear();
      offsets.clear();
      std::int64_t top = 0;
      alignment = 64;
      for (std::size_t k = 0; k < count; ++k) {
        const std::int64_t bytes = 1 + static_cast<std::int64_t>(bytes_.octet());
        events.push_back(bytes);
        offsets.push_back(bytes_.below(5) == 0 ? -1 : top);
        top += (bytes + 63) / 64 * 64;
      }
      for (std::size_t k = 0; k < count; ++k) events.push_back(-static_cast<std::int64_t>(k) - 1);
      size = top;
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
    em_context* context = em_context_create(kind());
    if (context != nullptr) contexts_.push_back(context);
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
      const bool active = is_active(contexts_[k]);
      HOLDS((em_context_destroy(contexts_[k]) == EM_OK) != active);
      if (!active) contexts_.erase(contexts_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  bool is_active(const em_context* context) const {
    return std::find(active_.begin(), active_.end(), context) != active_.end();
  }

  void begin_record() {
    em_context* context = contexts_.empty() ? nullptr : contexts_[bytes_.below(contexts_.size())];
    const std::int32_t status = em_begin_record(context, bytes_.number());
    if (context != nullptr) HOLDS(status == EM_OK || status == EM_BUSY);
    if (status == EM_OK) active_.push_back(context);
  }

  void begin_replay() {
    em_context* context = contexts_.empty() ? nullptr : contexts_[bytes_.below(contexts_.size())];
    em_arena* arena = arenas_.empty() ? nullptr : arenas_[bytes_.below(arenas_.size())];
    const std::size_t k = plans_.empty() ? 0 : bytes_.below(plans_.size());
    em_plan* plan = plans_.empty() ? nullptr : plans_[k];
    const bool poison = bytes_.below(2) == 0;
    // Poison fills what is free of the arena, so that nothing of it may be alive.
    if (em_begin_replay(context, plan, arena, poison ? EM_POISON : 0) != EM_OK) return;
    HOLDS(em_arena_left(arena) == 0);
    active_.push_back(context);
    if (bytes_.below(3) != 0) follow(expected_[k]);
  }

  // Ask as the plan expects, up to some event.
  void follow(const std::vector<std::int64_t>& events) {
    std::vector<Block> made;
    std::size_t left = bytes_.below(2) == 0 ? events.size() : bytes_.below(events.size() + 1);
    for (const std::int64_t event : events) {
      if (left-- == 0) break;
      if (event > 0 && blocks_.size() + made.size() < 64) {
        Block block{};
        if (take(static_cast<std::size_t>(event), false, block)) made.push_back(block);
      } else if (event < 0 && static_cast<std::size_t>(-(event + 1)) < made.size()) {
        Block& block = made[static_cast<std::size_t>(-(event + 1))];
        give(block);
        block.begin = nullptr;
      }
    }
    for (const Block& block : made) {
      if (block.begin != nullptr) blocks_.push_back(block);
    }
  }

  void end_run() {
    em_context* context = contexts_.empty() ? nullptr : contexts_[bytes_.below(contexts_.size())];
    em_stats stats{};
    const std::int32_t status = em_end(context, bytes_.below(4) == 0 ? nullptr : &stats);
    HOLDS((status == EM_OK) == is_active(context));
    if (status != EM_OK) return;
    active_.erase(std::find(active_.begin(), active_.end(), context));
    HOLDS(stats.hits >= 0 && stats.misses >= 0 && stats.hits + stats.misses <= stats.requests);
    HOLDS(stats.peak >= 0 && stats.heap_peak >= 0 && stats.events >= 0 && stats.bail >= -1);
  }

  void look() {
    const em_event* events = nullptr;
    em_context* context = contexts_.empty() ? nullptr : contexts_[bytes_.below(contexts_.size())];
    const std::int64_t count = em_events(context, &events);
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum ^= events[k].size + events[k].request;
    em_totals totals;
    em_totals_get(&totals);
    HOLDS(totals.contexts >= before_.contexts && totals.heap_live >= before_.heap_live && sum != INT64_MIN + 7);
    HOLDS(std::strlen(em_last_error()) < 512);
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
    if (memory == nullptr) return false;
    block = {static_cast<unsigned char*>(memory), size, ++pattern_, device};
    if (!device) std::memset(memory, block.pattern, size);
    return true;
  }

  void give(const Block& block) {
    if (block.device) return em_cuda_free(block.begin);
    for (std::size_t k = 0; k < block.size; ++k) HOLDS(block.begin[k] == block.pattern);
    em_free(block.begin);
  }

  void end() {
    em_fail_after(-1);
    for (em_context* context : active_) HOLDS(em_end(context, nullptr) == EM_OK);
    for (const Block& block : blocks_) give(block);
    for (em_context* context : contexts_) HOLDS(em_context_destroy(context) == EM_OK);
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
  std::vector<em_context*> contexts_;
  std::vector<em_context*> active_;
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
