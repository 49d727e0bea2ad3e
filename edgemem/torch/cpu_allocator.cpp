// PyTorch's CPU allocator as a pair of C functions. edgemem.torch.bridge compiles this file against the installed
// PyTorch when it is first needed, because the classes in c10's headers differ from version to version.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace {

using Take = void* (*)(ssize_t size, int device, void* stream);
using Give = void (*)(void* block, ssize_t size, int device, void* stream);

constexpr int kHost = -1;        // the device's number in em_torch_malloc
constexpr std::uint8_t kFirst = 255;  // no allocator has a higher priority

Take take = nullptr;
Give give = nullptr;

// Blocks outlive the session, and storages keep a pointer to their allocator: neither ever goes away.
void release(void* block) {
  if (block != nullptr) {
    c10::profiledCPUMemoryReporter().Delete(block);
    give(block, 0, kHost, nullptr);
  }
}

class PlannedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    void* block = size == 0 ? nullptr : take(static_cast<ssize_t>(size), kHost, nullptr);
    if (block == nullptr && size != 0) {
      c10::profiledCPUMemoryReporter().OutOfMemory(size);
      TORCH_CHECK(false, "edgemem: there is no memory for ", size, " bytes");
    }
    c10::profiledCPUMemoryReporter().New(block, size);
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

PlannedAllocator& planned() {
  static auto* one = new PlannedAllocator;
  return *one;
}

c10::Allocator* before = nullptr;

}  // namespace

// 0; 1 if it is installed already. c10 keeps the current allocator in a plain pointer, which other threads may read
// meanwhile: they get the old one or the new one, and both stay valid.
extern "C" int install(Take taking, Give giving) {
  if (c10::GetCPUAllocator() == &planned()) {
    return 1;
  }
  take = taking;
  give = giving;
  before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&planned(), kFirst);
  return 0;
}

// 0; 1 if it is not installed, as when another allocator was set after it, which stays.
extern "C" int uninstall() {
  if (c10::GetCPUAllocator() != &planned()) {
    return 1;
  }
  c10::SetCPUAllocator(before, kFirst);
  return 0;
}
