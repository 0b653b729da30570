#pragma once

// The memory that the program has from pools, by address, and the memory whose free has not been reached by its stream.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pools/pool.hpp"
#include "work/uses.hpp"

namespace memlake::emulator {

/// Memory that the program allocated from a pool.
struct PoolAllocation {
  std::uint64_t address;
  std::uint64_t size;  ///< the requested size
  Pool* pool;
  std::uint64_t id = 0;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID; PoolAllocations::add() gives it
  std::uint64_t block;
  std::uint64_t block_size;
  // The position of the allocation in the order of streams.
  std::uint64_t stream;
  std::uint64_t position;
  std::uint64_t context;
  CompletionRef made;                 ///< the completion of the stream's work before it; null if none was pending
  mutable Uses uses = {};             ///< by work of streams
  mutable bool syncs_memops = false;  ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  Origin made_by;
  std::uint64_t file_offset = 0;  ///< imported allocations only
  std::uint64_t charged = 0;      ///< imported allocations only
  GraphRangeRef range = {};       ///< allocations of graphs only
  /// After the free: unfinished work that need not be ordered before it (inflight_unmap) and keeps the memory.
  std::vector<CompletionRef> users = {};

  /// The access flags of a device, or of the CPU (kHost).
  [[nodiscard]] unsigned access_of(int place) const {
    return range != nullptr ? range->rights.of(place) : pool->access_of(place);
  }
  [[nodiscard]] bool contains(std::uint64_t at, std::uint64_t bytes) const {
    return at >= address && at - address < size && bytes <= size - (at - address);
  }
};

/// Throws a violation if another process still uses the memory.
void check_not_imported_elsewhere(const PoolAllocation& allocation);

class PoolAllocations {
 public:
  explicit PoolAllocations(const Order& order) : order_(order) {}

  /// Gives the allocation its id and keeps it.
  const PoolAllocation& add(PoolAllocation made);
  /// Removes an allocation that begins at the address. pre: there is one.
  PoolAllocation take(std::uint64_t address);

  /// The allocation that contains an address; null if there is none.
  [[nodiscard]] const PoolAllocation* find(std::uint64_t address) const;
  /// The allocation that begins at an address; null if there is none.
  [[nodiscard]] const PoolAllocation* find_start(std::uint64_t address) const;

  /// Keeps freed memory for work that was queued before the free, until end_leaving().
  PoolAllocation& begin_leaving(PoolAllocation freed);
  /// Null if the device was closed meanwhile.
  [[nodiscard]] const PoolAllocation* leaving(std::uint64_t id) const;
  PoolAllocation end_leaving(std::uint64_t id);

  /// An allocation that was freed in a stream that has not reached the free, or that work which is not ordered before
  /// the free uses (inflight_unmap). Work queued before may still use it.
  [[nodiscard]] const PoolAllocation* find_leaving(std::uint64_t address, std::uint64_t size) const;
  [[nodiscard]] bool is_leaving(const Pool& pool) const;

  /// Throws a violation if work behind the point could run before the allocation of memory that it touches.
  void check_made(const Clock& before, std::span<const Touch> touches) const;
  /// Throws a violation if work that is not ordered before the point, or a pending allocation, uses the memory.
  void check_free(const PoolAllocation& allocation, const Clock& before) const;

  /// Forgets all memory of a device. Returns the allocations that were not freed.
  std::vector<PoolAllocation> drop_device(const Device& device);

  [[nodiscard]] const std::map<std::uint64_t, PoolAllocation>& all() const { return all_; }

 private:
  const Order& order_;
  std::map<std::uint64_t, PoolAllocation> all_;      // by address
  std::map<std::uint64_t, PoolAllocation> leaving_;  // by id
  std::uint64_t next_id_ = 1;
};

}  // namespace memlake::emulator
