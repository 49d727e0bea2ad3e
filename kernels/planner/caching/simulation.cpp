#include "planner/caching/simulation.h"

#include <cstddef>
#include <stdexcept>

#include "caching/segment_source.h"

namespace edgemem {

namespace {

// Addresses without memory, none of them given twice. The allocator counts what is reserved.
class Addresses final : public SegmentSource {
 public:
  std::uintptr_t take(std::int64_t bytes) noexcept override {
    if (static_cast<std::uint64_t>(bytes) > kEnd - next_) return 0;
    const std::uintptr_t address = next_;
    next_ += static_cast<std::uintptr_t>(bytes);
    return address;
  }
  void give(std::uintptr_t, std::int64_t) noexcept override {}
  std::uintptr_t reserve(std::int64_t bytes) noexcept override { return take(bytes); }

 private:
  static constexpr std::uintptr_t kEnd = std::uintptr_t{1} << (sizeof(std::uintptr_t) * 8 - 2);
  std::uintptr_t next_ = std::uintptr_t{2} << 20;
};

}  // namespace

CachingRun simulate_caching(const RequestEvents& events, const CachingSettings& settings) {
  const std::size_t count = events.size.size();
  if (events.request.size() != count || events.stream.size() != count) {
    throw std::invalid_argument("the columns of the events differ in length");
  }
  Addresses source;
  CachingAllocator allocator(source, settings);
  CachingRun run;
  std::vector<std::uintptr_t> addresses;  // of each request
  for (std::size_t event = 0; event < count; ++event) {
    if (events.size[event] > 0) {
      const std::uintptr_t address =
          allocator.take(events.size[event], static_cast<std::uint64_t>(events.stream[event]));
      if (address == 0) break;
      addresses.push_back(address);
    } else {
      const auto request = static_cast<std::size_t>(events.request[event]);
      if (events.size[event] < 0 || request >= addresses.size() || !allocator.give(addresses[request])) {
        throw std::invalid_argument("an event frees a request that is not alive, or asks for less than nothing");
      }
      addresses[request] = 0;
    }
    run.requested.push_back(allocator.stats().requested);
    run.allocated.push_back(allocator.stats().allocated);
    run.reserved.push_back(allocator.stats().reserved);
  }
  run.stats = allocator.stats();
  run.blocks = allocator.blocks();
  return run;
}

}  // namespace edgemem
