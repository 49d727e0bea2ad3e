// PyTorch's CPU allocator as a pair of C functions, and storages that can be emptied and filled again.
// edgemem.torch.bridge compiles this file against the installed PyTorch when it is first needed, because the classes in
// c10's headers differ from version to version.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

namespace {

using Take = void* (*)(ssize_t size, int device, void* stream);
using Give = void (*)(void* block, ssize_t size, int device, void* stream);

constexpr int kHost = -1;             // the device's number in em_torch_malloc
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

// An empty storage's pointer to memory is null, and its context is a Vacancy: PyTorch frees it where it would free the
// memory, so that the storage's end is noticed.
using Dropped = void (*)(void* owner, std::int64_t value);

struct Vacancy {
  Dropped dropped;
  void* owner;
  std::int64_t value;
  std::uint64_t digest;  // of the bytes that were evicted, if is_checking
};

void end_vacancy(void* context) {
  const std::unique_ptr<Vacancy> vacancy(static_cast<Vacancy*>(context));
  vacancy->dropped(vacancy->owner, vacancy->value);
}

constexpr const char* kEmpty =
    "edgemem: this tensor is evicted, and only operators of PyTorch on the thread of `rematerialize` may read it; call "
    "`keep` of the context with it first";

using Storage = c10::intrusive_ptr<c10::StorageImpl>;

Dropped dropped = nullptr;
void* owner = nullptr;
bool is_checking = false;

// Of a storage that is watched: somebody gets a pointer to write its memory. Not 0: it must not get one.
using Touched = int (*)(void* storage);
Touched touched = nullptr;
c10::DeleterFnPtr foreign_deleter = nullptr;

// PyTorch calls it once, before it gives out the first mutable pointer.
void tell_of_access(c10::StorageImpl* storage) {
  TORCH_CHECK(touched == nullptr || touched(storage) == 0,
              "edgemem: what was made from this tensor cannot be kept, and something that is no operator of PyTorch "
              "wants to write its memory; give a larger budget, or call `keep` of the context with it before");
}

// Not for cryptography: another content has the same digest once in 2**64 times.
std::uint64_t digest(const void* data, std::size_t bytes) {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15;
  std::uint64_t found = bytes * kPrime;
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t left = bytes; left != 0;) {
    std::uint64_t word = 0;
    const std::size_t count = left < sizeof word ? left : sizeof word;
    std::memcpy(&word, at, count);
    found = (found ^ word) * kPrime;
    found ^= found >> 32;
    at += count;
    left -= count;
  }
  return found;
}

c10::StorageImpl& storage_at(void* storage) { return *static_cast<c10::StorageImpl*>(storage); }

// Storages are given as pointers to which the caller has references, weak ones at least.
c10::weak_intrusive_ptr<c10::StorageImpl> watched(void* storage) {
  c10::raw::weak_intrusive_ptr::incref(&storage_at(storage));
  return c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(&storage_at(storage));
}

// Without its checks, which refuse empty storages.
c10::DataPtr exchanged(c10::StorageImpl& storage, c10::DataPtr&& data) {
  return std::exchange(storage._mutable_data_ptr_no_checks(), std::move(data));
}

bool is_empty(c10::StorageImpl& storage) { return storage._mutable_data_ptr_no_checks().get_deleter() == &end_vacancy; }

void fill(c10::StorageImpl& storage, c10::DataPtr&& data) {
  c10::DataPtr old = exchanged(storage, std::move(data));
  if (old.get_deleter() == &end_vacancy) {
    delete static_cast<Vacancy*>(old.release_context());
    storage.clear_data_ptr_access_error_msg_();
  }
}

}  // namespace

// Who is told of the end of storages that evict_storage emptied. `check`: it notes a digest of what it evicts.
extern "C" void set_owner(Dropped telling, void* whom, int check) {
  dropped = telling;
  owner = whom;
  is_checking = check != 0;
}

// Who is told of accesses to storages that are watched.
extern "C" void set_watcher(Touched telling) { touched = telling; }

// 0 if the storage makes its memory only when it is written, as copies on write do: then it cannot be watched.
extern "C" int is_watchable(void* storage) noexcept {
  return static_cast<int>(!storage_at(storage).has_materializer());
}

extern "C" void watch(void* storage) noexcept { storage_at(storage).set_materializer(&tell_of_access); }

extern "C" void end_watch(void* storage) noexcept { storage_at(storage).clear_materializer(); }

// Whether somebody else owns the memory: it was not taken from an allocator of PyTorch, nor mapped by it.
extern "C" int is_foreign(void* storage) noexcept {
  const c10::DataPtr& data = storage_at(storage)._mutable_data_ptr_no_checks();
  return static_cast<int>(data.get() != nullptr && data.get_deleter() == foreign_deleter);
}

// A storage whose memory somebody else owns, by which others are known.
extern "C" void set_foreign(void* storage) noexcept {
  foreign_deleter = storage_at(storage)._mutable_data_ptr_no_checks().get_deleter();
}

// Of the content of a storage; of an evicted one, as it was then.
extern "C" std::uint64_t digest_of(void* storage) noexcept {
  c10::StorageImpl& found = storage_at(storage);
  const c10::DataPtr& data = found._mutable_data_ptr_no_checks();
  return is_empty(found) ? static_cast<Vacancy*>(data.get_context())->digest : digest(data.get(), found.nbytes());
}

// Takes the memory from a storage that has a block of `take`, which is the caller's from then on. 0 if the storage is
// gone, has other memory, or memory is short. An em_remat_evict.
extern "C" std::int32_t evict_storage(void* storage, std::int64_t value) noexcept {
  try {
    const auto weak = watched(storage);
    // One that only an object of Python has is dropped by nobody meanwhile. A lock would ask for Python's global lock,
    // which a thread may have that waits for the allocator.
    const bool is_alone = weak.use_count() == 1;
    const Storage kept = is_alone ? Storage() : weak.lock();
    c10::StorageImpl& found = storage_at(storage);
    const c10::DataPtr& data = found._mutable_data_ptr_no_checks();
    if ((!kept && !is_alone) || data.get_context() == nullptr || data.get_deleter() != &release) {
      return 0;
    }
    auto vacancy =
        std::make_unique<Vacancy>(Vacancy{dropped, owner, value, is_checking ? digest(data.get(), found.nbytes()) : 0});
    const c10::Device device = data.device();
    found.release_data_and_set_meta_custom_data_ptr_error_msg_(kEmpty);
    c10::DataPtr old = exchanged(found, {nullptr, vacancy.release(), &end_vacancy, device});
    c10::profiledCPUMemoryReporter().Delete(old.release_context());
    return 1;
  } catch (const std::exception&) {
    return 0;
  }
}

// Moves the memory of a storage, which lies at `from`. 0 if it does not. An em_remat_move.
extern "C" std::int32_t relocate_storage(void* storage, void* from, void* to, std::int64_t bytes) noexcept {
  c10::DataPtr& data = storage_at(storage)._mutable_data_ptr_no_checks();
  if (data.get_context() != from || data.get() != from || data.get_deleter() != &release) {
    return 0;
  }
  std::memmove(to, from, static_cast<std::size_t>(bytes));
  const c10::Device device = data.device();
  data.release_context();
  data = c10::DataPtr(to, to, &release, device);
  c10::profiledCPUMemoryReporter().Delete(from);
  c10::profiledCPUMemoryReporter().New(to, static_cast<std::size_t>(bytes));
  return 1;
}

// The memory of one storage becomes that of another, which is empty. 0 if it is not.
extern "C" int move_memory(void* from, void* to) noexcept {
  c10::StorageImpl& source = storage_at(from);
  c10::StorageImpl& target = storage_at(to);
  if (!is_empty(target) || is_empty(source) || source.nbytes() != target.nbytes()) {
    return 0;
  }
  const c10::Device device = source.device();
  fill(target, exchanged(source, {nullptr, device}));
  return 1;
}

// The memory of two storages changes places. 0 if one is empty.
extern "C" int swap_memory(void* one, void* other) noexcept {
  c10::StorageImpl& first = storage_at(one);
  c10::StorageImpl& second = storage_at(other);
  if (is_empty(first) || is_empty(second) || first.nbytes() != second.nbytes()) {
    return 0;
  }
  std::swap(first._mutable_data_ptr_no_checks(), second._mutable_data_ptr_no_checks());
  return 1;
}

// A storage without memory gets a block of `take`, which it frees at its end.
extern "C" void lend_memory(void* storage, void* block, std::size_t bytes) noexcept {
  c10::StorageImpl& found = storage_at(storage);
  const c10::Device device = found.device();
  c10::profiledCPUMemoryReporter().New(block, bytes);
  exchanged(found, {block, block, &release, device});
  found.set_nbytes(bytes);
}

// The memory of a storage, or null if it is gone or empty, or is not of `take`.
extern "C" void* memory_of(void* storage) noexcept {
  const c10::DataPtr& data = storage_at(storage)._mutable_data_ptr_no_checks();
  return data.get_deleter() == &release ? data.get_context() : nullptr;
}

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
