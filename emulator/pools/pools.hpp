#pragma once

// Stream-ordered memory pools: section B of the driver's contract. Allocations and frees happen in stream order
// (pool_memory.hpp).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "memory/chunk.hpp"
#include "memory/managed_pages.hpp"
#include "pools/pool_allocations.hpp"

namespace memlake::emulator {

class Pools {
 public:
  Pools(Devices& devices, Chunks& chunks, Arena& arena, const InFlight& in_flight, const Order& order,
        ManagedPages& pages, Streams& streams)
      : devices_(devices),
        chunks_(chunks),
        arena_(arena),
        in_flight_(in_flight),
        order_(order),
        pages_(pages),
        streams_(streams),
        allocations_(order) {}

  Pool& create(const CUmemPoolProps& props, int driver_version, const Origin& origin);
  void destroy(Pool& pool);

  /// Throws 1 for NULL, and for a pool that does not exist or was destroyed.
  Pool& find(CUmemoryPool handle);

  Pool& default_pool(const CUmemLocation& location, CUmemAllocationType type);
  Pool& current_pool(const CUmemLocation& location, CUmemAllocationType type);
  void set_current(const CUmemLocation& location, CUmemAllocationType type, Pool& pool);

  void trim(Pool& pool, std::uint64_t keep);
  void set_access(Pool& pool, std::span<const CUmemAccessDesc> descriptors);
  unsigned access(const Pool& pool, const CUmemLocation& location);

  std::uint64_t allocate(Pool& pool, std::uint64_t bytes, Stream& stream, const Origin& origin);
  /// Frees in stream order. Throws a violation if work that is not ordered before the free uses the memory.
  void free(const PoolAllocation& allocation, Stream& stream, const Origin& origin);
  /// Frees at once. Throws a violation if the host has not seen the end of all work that uses the memory.
  void free_now(const PoolAllocation& allocation);

  /// The memory of a device's graphs, as a pool that the program cannot use.
  Pool& graph_pool(Device& device);
  [[nodiscard]] const Pool* find_graph_pool(const Device& device) const;
  /// Takes addresses for an allocation node.
  GraphRangeRef reserve_for_graph(Device& device, std::uint64_t bytes);
  /// A launch has queued an allocation as the work of this position. pre: the range has memory.
  void begin_graph_allocation(const GraphRangeRef& range, const Stream& stream, const CompletionRef& made,
                              const Origin& origin);
  /// A launch frees an allocation by work that is to be queued: the memory leaves when the result is called. pre: the
  /// memory was given back to the graphs.
  std::function<void()> begin_graph_free(const PoolAllocation& allocation);

  int export_pool(Pool& pool, CUmemAllocationHandleType type, std::uint64_t flags);
  Pool& import_pool(int fd, CUmemAllocationHandleType type, std::uint64_t flags, const Origin& origin);
  CUmemPoolPtrExportData export_pointer(std::uint64_t address);
  std::uint64_t import_pointer(Pool& pool, const CUmemPoolPtrExportData& data, const Origin& origin);

  /// Called when the host has waited for all work before a point, or for all work of a context. The pools release
  /// memory above their thresholds.
  void synchronized(const Clock& point);
  void synchronized(const Clock& point, const Context& context);

  /// Ends destroyed pools that could not end earlier, because work was still running on their memory.
  void reclaim();

  /// Drops all pools of a device that was closed or whose last context ended. pre: no work runs on their memory.
  void drop_device(const Device& device);
  [[nodiscard]] bool is_in_use(const Device& device) const;

  [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Pool>>& all() const { return pools_; }
  [[nodiscard]] const PoolAllocations& allocations() const { return allocations_; }
  [[nodiscard]] bool is_current(const Pool& pool) const;

 private:
  using Place = std::tuple<int, int, int>;  // allocation type, location type, id
  struct Slot {
    Pool* by_default = nullptr;
    Pool* current = nullptr;
  };

  Pool& add(const CUmemPoolProps& props, Device* device, const Origin& origin);
  Slot& slot(const CUmemLocation& location, CUmemAllocationType type);
  static Place place_of(const CUmemLocation& location, CUmemAllocationType type);
  Device* device_of(const CUmemPoolProps& props, int driver_version);
  [[nodiscard]] bool is_known(const Identity& identity) const;
  void end(const PoolAllocation& gone);
  void begin_leaving(const PoolAllocation& allocation);
  void leave(std::uint64_t id);
  void finish_free(const PoolAllocation& gone);
  void release_by_thresholds();
  void end_if_unused(Pool& pool);

  Devices& devices_;
  Chunks& chunks_;
  Arena& arena_;
  const InFlight& in_flight_;
  const Order& order_;
  ManagedPages& pages_;
  Streams& streams_;
  std::map<std::uint64_t, std::unique_ptr<Pool>> pools_;  // by handle
  std::map<Place, Slot> slots_;
  PoolAllocations allocations_;
  std::map<int, Pool*> graph_pools_;  // by device
  std::uint64_t next_pool_ = 1;
};

}  // namespace memlake::emulator
