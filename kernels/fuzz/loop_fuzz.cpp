// The C ABI of loops, called in any order with any arguments that its contract allows.
//
// A case is a list of calls, on loops of host memory and of a device whose memory is a pair of functions. Blocks that
// are alive are filled with a pattern of their own, which must still be there when they are freed: so no two of them
// share bytes, whatever a plan says. Records must make sense as a list of requests and frees, and counts must add up.
#include <memory>

#include "fuzz/bytes.h"
#include "replay/edgemem_arena.h"

namespace {

constexpr std::int64_t kMostTouched = 1 << 16;  // bytes of a block
constexpr std::size_t kMostHeld = 6;
constexpr int kDevice = 0;

int take_segment(void** block, std::size_t size) {
  if (size > std::size_t{1} << 22) return 1;
  *block = std::aligned_alloc(512, size);
  return *block == nullptr ? 1 : 0;
}

int give_segment(void* block) {
  std::free(block);
  return 0;
}

struct Block {
  unsigned char* begin;
  std::int64_t size;
  unsigned char pattern;
  int device;
  void* stream;
};

struct Loop {
  em_loop* address;
  int device;
  bool active;
};

class Program {
 public:
  explicit Program(Bytes bytes) : bytes_(bytes) {
    em_torch_empty_cache(kDevice);
    em_totals_get(&before_);
    em_cuda_source(take_segment, give_segment);
  }

  void run() {
    for (int steps = 0; !bytes_.is_empty() && steps < 2000; ++steps) step();
    end();
  }

 private:
  void step() {
    switch (bytes_.below(20)) {
      case 0:
        return make_loop();
      case 1:
        return make_arena();
      case 2:
        return bytes_.below(4) == 0 ? destroy_one() : start_one();
      case 3:
      case 4:
        return replay();
      case 5:
        return bytes_.below(4) == 0 ? stop_one() : record();
      case 6:
        return begin_or_end();
      case 7:
        return pause_or_resume();
      case 8:
        return enter();
      case 9:
        return look();
      case 10:
        return em_fail_after(bytes_.below(8) == 0 ? static_cast<std::int64_t>(bytes_.below(3)) : -1);
      case 11:
        return share_or_wait();
      case 12:
      case 13:
      case 14:
      case 15:
        return take();
      default:
        return give();
    }
  }

  Loop* any() { return loops_.empty() ? nullptr : &loops_[bytes_.below(loops_.size())]; }

  void make_loop() {
    if (loops_.size() >= kMostHeld) return;
    const int device = bytes_.below(3) == 0 ? kDevice : EM_HOST_MEMORY;
    em_loop* loop = em_loop_create(device);
    HOLDS(loop != nullptr);
    loops_.push_back({loop, device, false});
    HOLDS(em_loop_create(EM_MOST_DEVICES) == nullptr && em_loop_create(EM_HOST_MEMORY - 1) == nullptr);
  }

  void make_arena() {
    const std::int64_t size = 1 + std::abs(bytes_.number() % 4096);
    if (arenas_.size() >= kMostHeld) return;
    em_arena* arena = nullptr;
    if (bytes_.below(3) == 0) {
      memories_.push_back(std::make_unique<unsigned char[]>(static_cast<std::size_t>(size) + 64));
      const auto address = reinterpret_cast<std::uintptr_t>(memories_.back().get());
      arena = em_arena_wrap(memories_.back().get() + (64 - address % 64) % 64, size, EM_DEVICE);
    } else {
      arena = em_arena_create(size, 0);
    }
    if (arena != nullptr) arenas_.push_back(arena);
  }

  void destroy_one() {
    if (loops_.empty()) return;
    const std::size_t k = bytes_.below(loops_.size());
    em_loop_destroy(loops_[k].address);
    loops_.erase(loops_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  void start_one() {
    Loop* loop = any();
    if (loop == nullptr) return;
    const bool taken =
        std::any_of(loops_.begin(), loops_.end(), [&](const Loop& l) { return l.active && l.device == loop->device; });
    HOLDS(em_loop_start(loop->address) == (taken ? EM_BUSY : EM_OK));
    loop->active = loop->active || !taken;
  }

  void stop_one() {
    if (Loop* loop = any()) {
      em_loop_stop(loop->address);
      loop->active = false;
    }
  }

  void record() {
    if (Loop* loop = any()) {
      HOLDS(em_loop_record(loop->address, bytes_.number()) == (loop->active ? EM_OK : EM_REFUSED));
    }
  }

  void begin_or_end() {
    if (Loop* loop = any()) {
      const bool begin = bytes_.below(2) == 0;
      const std::int32_t status = begin ? em_loop_begin(loop->address) : em_loop_end(loop->address);
      HOLDS(loop->active || status == EM_REFUSED);
    }
  }

  void pause_or_resume() {
    if (Loop* loop = any()) {
      const bool pause = bytes_.below(2) == 0;
      const std::int32_t status = pause ? em_loop_pause(loop->address) : em_loop_resume(loop->address);
      HOLDS(status == EM_REFUSED || loop->active);
    }
  }

  void enter() {
    if (Loop* loop = any()) em_loop_enter(loop->address, bytes_.number() % 4);
  }

  // Mostly slots that fit; some with numbers that make no sense.
  void replay() {
    Loop* loop = any();
    if (loop == nullptr || arenas_.empty()) return;
    em_arena* arena = arenas_[bytes_.below(arenas_.size())];
    const std::int64_t size = em_arena_size(arena) - static_cast<std::int64_t>(bytes_.below(2));
    const auto place = [&] { return static_cast<std::int64_t>(bytes_.octet()) * 64 % std::max<std::int64_t>(size, 1); };
    const bool any_number = bytes_.below(6) == 0;
    std::vector<em_interval> intervals;
    const auto spaces = static_cast<std::int64_t>(bytes_.below(3));
    for (std::int64_t space = 0; space < spaces; ++space) {
      const std::int64_t begin = place();
      intervals.push_back({space, begin, any_number ? bytes_.number() : std::min(size, begin + 1 + place())});
    }
    std::vector<em_slot> slots;
    for (std::size_t k = bytes_.below(24); k > 0; --k) {
      em_slot slot{1 + bytes_.octet(),
                   -1,
                   -1,
                   static_cast<std::int64_t>(bytes_.below(2)),
                   static_cast<std::int64_t>(bytes_.below(4)) - 1,
                   -1};
      if (any_number && bytes_.below(4) == 0) {
        slot = {bytes_.number(), bytes_.number(), bytes_.number(), bytes_.number(), bytes_.number(), bytes_.number()};
      } else if (spaces > 0 && bytes_.below(4) == 0) {
        slot.space = static_cast<std::int64_t>(bytes_.below(static_cast<std::size_t>(spaces)));
      } else if (slot.bytes <= size) {
        slot.offset = std::min(place(), (size - slot.bytes) / 64 * 64);
        slot.other = bytes_.below(2) == 0 ? -1 : std::min(place(), (size - slot.bytes) / 64 * 64);
      }
      slots.push_back(slot);
    }
    const em_slots table{any_number ? bytes_.number() : size,
                         64,
                         slots.data(),
                         static_cast<std::int64_t>(slots.size()),
                         intervals.data(),
                         static_cast<std::int64_t>(intervals.size()),
                         spaces};
    const std::int32_t status =
        em_loop_replay(loop->address, &table, arena, static_cast<std::int32_t>(bytes_.below(2)));
    HOLDS(status == EM_OK || status == EM_REFUSED || status == EM_BUSY);
  }

  void look() {
    Loop* loop = any();
    if (loop == nullptr) return;
    em_loop_stats last;
    em_loop_stats total;
    em_loop_stats_get(loop->address, &last, &total);
    for (const em_loop_stats& s : {last, total}) {
      HOLDS(s.requests == s.hits + s.dynamic_hits + s.misses + s.occupied + s.dynamic_misses + s.unplanned +
                              s.other_stream + s.failed);
      HOLDS(s.missed_bytes >= 0 && s.arena_peak >= 0 && s.fallback_peak >= 0);
    }
    const em_loop_event* event = nullptr;
    std::vector<bool> alive;
    for (std::int64_t left = em_loop_events(loop->address, &event); left > 0; --left, ++event) {
      if (event->size > 0) {
        HOLDS(event->request == static_cast<std::int64_t>(alive.size()));
        alive.push_back(true);
      } else {
        const auto request = static_cast<std::size_t>(event->request);
        HOLDS(event->request >= 0 && request < alive.size() && alive[request]);
        alive[request] = false;
      }
    }
    em_loop_events_drop(loop->address);
  }

  void share_or_wait() {
    if (bytes_.below(2) == 0 && !blocks_.empty()) {
      em_torch_record_stream(blocks_[bytes_.below(blocks_.size())].begin, stream());
    } else if (Loop* loop = any()) {
      em_loop_synchronized(loop->address);
    } else {
      HOLDS(em_torch_empty_cache(kDevice) >= 0);
    }
  }

  void* stream() { return &streams_[bytes_.below(2)]; }

  void take() {
    const int device = bytes_.below(3) == 0 ? kDevice : EM_HOST_MEMORY;
    const std::int64_t size = bytes_.below(8) == 0 ? bytes_.number() : 1 + bytes_.octet();
    if (size > kMostTouched && size <= std::int64_t{1} << 56) return;
    void* const on = stream();
    auto* begin = static_cast<unsigned char*>(em_torch_malloc(size, device, on));
    HOLDS(begin == nullptr || (size > 0 && size <= kMostTouched));
    if (begin == nullptr) return;
    blocks_.push_back({begin, size, ++pattern_, device, on});
    std::memset(begin, pattern_, static_cast<std::size_t>(size));
  }

  void give() {
    if (blocks_.empty()) return em_torch_free(nullptr, 0, EM_HOST_MEMORY, nullptr);
    const std::size_t k = bytes_.below(blocks_.size());
    give(blocks_[k]);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  void give(const Block& block) {
    for (std::int64_t k = 0; k < block.size; ++k) HOLDS(block.begin[k] == block.pattern);
    em_torch_free(block.begin, block.size, block.device, block.stream);
  }

  void end() {
    em_fail_after(-1);
    for (const Block& block : blocks_) give(block);
    em_loop* last = em_loop_create(kDevice);
    em_loop_synchronized(last);  // what other streams used is free now
    em_loop_destroy(last);
    for (const Loop& loop : loops_) em_loop_destroy(loop.address);
    for (em_arena* arena : arenas_) {
      HOLDS(em_arena_left(arena) == 0);
      em_arena_release(arena);
    }
    em_torch_empty_cache(kDevice);
    em_totals after;
    em_totals_get(&after);
    HOLDS(after.arenas == before_.arenas && after.arena_bytes == before_.arena_bytes);
    HOLDS(after.heap_live == before_.heap_live);
  }

  Bytes bytes_;
  em_totals before_{};
  std::vector<em_arena*> arenas_;
  std::vector<Loop> loops_;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<unsigned char[]>> memories_;  // of wrapped arenas; outlive them
  int streams_[2] = {0, 0};
  unsigned char pattern_ = 0;
};

}  // namespace

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(Bytes(data, size));
  program.run();
  return 0;
}
