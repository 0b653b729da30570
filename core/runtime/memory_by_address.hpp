#pragma once

// MemoryByAddress: the part of a live pool for callers that know their memory only by its address and use streams of
// other libraries: the path of the C ABI. There is no object per allocation. The memory of a Lease cannot be found by
// its address.
//
// It locks once and allocates no heap memory per operation. It calls the driver neither for an allocation from cached
// memory nor for a free in the order of the memory's own stream.
//
// pre: promise_lasting_streams() was called, or all streams are memlake's own or default streams. A stream of another
// library is not asked whether it captures a graph before the driver has to be called. A free is not refused because of
// its stream: on one that captures or was destroyed, the memory becomes free later.

#include <functional>
#include <span>

#include "policies/facets.hpp"
#include "runtime/address_table.hpp"
#include "runtime/found_block.hpp"
#include "runtime/live_graphs.hpp"
#include "runtime/live_sharing.hpp"
#include "runtime/locked_pool.hpp"

namespace memlake {

/// Thrown if there is no memory.
struct NoMemory {
  Shortage shortage;
};

/// An allocation that a graph pool had at an earlier moment.
struct EarlierAllocation {
  AddressRange range;
  Bytes requested;
  CUstream stream = nullptr;  ///< that it was for
};

class MemoryByAddress {
 public:
  MemoryByAddress(LockedPool& locked, LiveGraphs& graphs, LiveSharing& sharing)
      : locked_(locked), graphs_(graphs), sharing_(sharing) {}

  /// Throws NoMemory. pre: requested > 0. `counts_refusal`: whether the pool's statistics count a refusal.
  Address allocate(Bytes requested, CUstream stream, bool counts_refusal = true);
  /// Allocates from the graph pool, independent of the filters. Error(invalid_argument) if no graph uses it.
  Address allocate_from_graph_pool(GraphPoolId id, Bytes requested, CUstream stream, bool counts_refusal = true);
  /// Frees in the order of the stream for which it was allocated. Error(invalid_free) if no allocation is there.
  void free(Address address);
  /// Frees in the order of `stream`, which must be ordered behind all earlier work on the memory.
  void free(Address address, CUstream stream);
  /// Frees in the order of the stream; false if no allocation is there.
  bool try_free(Address address, CUstream stream);
  /// Frees in the order of the stream of the allocation; false if no allocation is there, or the pool is closed.
  /// `found`: gets the block as it was before; may be null.
  bool release(Address address, FoundBlock* found);
  /// False if no allocation is there, or the pool is closed. `found` may be null.
  bool find(Address address, FoundBlock* found) const;
  [[nodiscard]] bool has(Address address) const { return find(address, nullptr); }
  /// Work on another stream uses the memory.
  void record_use(Address address, CUstream stream);
  /// The segment of the allocation. Error(invalid_argument) if the segment is not one allocation of the driver.
  [[nodiscard]] AddressRange segment_of(Address address) const;
  /// The chunks under the allocation, for other processes, which then see everything that lies in them. The chunks stay
  /// under the allocation until it is freed. Error(config) if the pool has no such chunks.
  [[nodiscard]] ExportedRange export_chunks(Address address) const;
  /// Sets an earlier state of the graph pool again: frees all its allocations by address, and allocates `earlier`. All
  /// or nothing. `before_free` is called with each block that will be freed, under the pool's lock, when nothing can
  /// fail any more but the host's memory. Error(invalid_argument) says why the state cannot be set.
  void restore(GraphPoolId id, std::span<const EarlierAllocation> earlier,
               const std::function<void(const FoundBlock&)>& before_free);

 private:
  /// The path of all allocations. `choose`: the space for the number of the stream; called again behind every wait.
  template <class Choose>
  Address serve(Bytes requested, CUstream stream, bool counts_refusal, Choose&& choose);
  /// pre: the lock is held. Error(invalid_free) if no allocation is there.
  [[nodiscard]] AddressTable::Place place_of(Address address) const;
  [[noreturn]] static void refuse(Address address);
  [[noreturn]] void refuse_for_lack_of_memory(bool is_counted);

  LockedPool& locked_;
  LiveGraphs& graphs_;
  LiveSharing& sharing_;
  AddressTable table_;
};

}  // namespace memlake
