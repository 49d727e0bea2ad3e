// A program under a budget of memory: its requests, the values that lie in its blocks, and their storages.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "remat/memory.h"
#include "remat_runtime/address_range.h"
#include "replay/edgemem_remat.h"

namespace edgemem::remat {

//   program ──► allocate ──► Memory::take ──► no room: victims ──► `evict` empties their storages ──► take again
//                                                                        └─► Memory: their blocks are free
//   storage dies ──► free (its block) or dropped (it was empty) ──► the program let go of the value
//
// A value is *held* while a storage has it or would have it. A storage is an opaque pointer, which the caller keeps
// valid until the value is forgotten. All functions are called with the lock of serving.h held, which the same thread
// may take again: emptying a storage may free others. They throw std::invalid_argument for a value that is not known,
// and std::bad_alloc.
class Runtime {
 public:
  // `budget` < 0: none, the memory grows as it is needed. Throws std::bad_alloc.
  Runtime(std::int64_t budget, Rules rules, em_remat_evict evict, em_remat_move move, bool poison);

  bool contains(const void* block) const { return addresses_.contains(block); }
  void* allocate(std::int64_t bytes);
  void free(void* block);
  void dropped(ValueId value);

  // There is no budget from now on.
  void lift();
  // Forgets all values. Blocks stay valid, and their pages go back to the system when they are freed.
  void stop();
  bool is_empty() const { return is_stopped_ && left_.empty(); }

  ValueId add_constant(const void* block, void* storage);
  std::int64_t lock(std::span<const ValueId> values, Kind kind, bool is_patient = false);
  void unlock(std::span<const ValueId> values);
  // The call that ran, and its results. False, and nothing happens, if a block is not one that lies free of values, or
  // a value's memory cannot be taken over.
  bool ran(std::int64_t cost, std::span<const ValueId> reads, std::span<em_remat_result> results);
  void ran_without_results(std::int64_t cost, std::span<const ValueId> reads);
  // The block of an evictable value becomes that of a constant, which is given.
  ValueId make_constant(ValueId value);
  bool remade(ValueId value, const void* block, void* storage);
  bool take_over(ValueId old_version, ValueId new_version, void* storage);
  void repeated(ValueId written, std::int64_t cost);
  void pin(ValueId value);
  // It is evicted only where nothing else makes room.
  void spare(ValueId value);
  // Others know where it lies.
  void fix(ValueId value);
  // Evicts what can be evicted, and moves the rest together, locked values too.
  void clear();
  // The storage has the value now, which lay in memory without one.
  void* lend(ValueId value, void* storage);

  bool is_resident(ValueId value) const;
  bool is_recomputable(ValueId value) const;
  std::span<const ValueId> dependents(ValueId value);
  std::span<const ValueId> take_forgotten();

  em_remat_stats stats() const;

 private:
  bool make_room(std::int64_t bytes);
  std::int64_t fixed_bytes() const;
  ValueId owner_of(const void* block) const;
  std::int64_t offset_of(const void* block) const { return static_cast<const char*>(block) - addresses_.base(); }
  bool is_unowned(const void* block) const;
  struct Holder {
    void* storage = nullptr;  // null: the program has let go of the value
    bool is_fixed = false;
    bool is_spared = false;  // has a lock of its own
  };
  Holder& holder_of(ValueId value);
  void*& storage_of(ValueId value) { return holder_of(value).storage; }
  void set_storage(ValueId value, void* storage) { holder_of(value) = {storage, false, false}; }
  bool evict(ValueId value);
  bool compact(bool with_locked);
  bool end_sparing(ValueId value);
  bool end_all_sparing();
  bool is_outside(ValueId value) const;
  bool can_be_taken(ValueId value) const;
  void settle();
  void check_known(std::span<const ValueId> values) const;

  AddressRange addresses_;
  Memory memory_;
  em_remat_evict evict_;
  em_remat_move move_;
  std::int64_t budget_;
  bool poison_;
  bool is_lifted_;
  bool is_stopped_ = false;
  bool is_patient_ = false;  // a request may be refused before values that are spared are evicted
  Kind kind_ = Kind::kConstant;
  std::vector<Holder> holders_;                          // by value
  std::unordered_map<std::int64_t, std::int64_t> left_;  // address and bytes of blocks, once it is stopped
  std::vector<ValueId> dependents_, victims_, forgotten_;
  em_remat_stats stats_{};
  std::int64_t peak_before_lift_ = -1;
};

}  // namespace edgemem::remat
