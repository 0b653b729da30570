#pragma once

// Stream-ordered memory pools: section B of the driver's contract. The program creates and destroys a pool, or it is
// the default pool of a location. Allocations and frees happen in stream order (pool_memory.hpp).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "basics/rights.hpp"
#include "memory/chunk.hpp"
#include "memory/managed_pages.hpp"
#include "pools/graph_memory.hpp"
#include "pools/pool_memory.hpp"
#include "system/shareable.hpp"
#include "work/uses.hpp"

namespace memlake::emulator {

/// The file of a pool that this process imported, with the parts of it that are imported.
class ImportedFile {
 public:
  explicit ImportedFile(int fd) : storage_(fd) {}

  [[nodiscard]] int fd() const { return storage_.fd(); }
  void use(std::uint64_t offset, std::uint64_t size);
  void leave(std::uint64_t offset, std::uint64_t size);

 private:
  Storage storage_;
  std::map<std::uint64_t, unsigned> uses_;  // by offset
};

struct Pool {
  std::uint64_t handle;
  CUmemPoolProps props;
  Device* device;  ///< null: host memory or managed memory
  Origin made_by;
  bool is_strict = true;  ///< whether doubtful calls are refused
  bool has_bytes = true;  ///< whether the bytes exist
  unsigned relaxed = 0;   ///< managed memory only: the rules that all devices relax (bit set of Switch)
  bool is_default = false;
  bool is_exported = false;
  bool is_destroyed = false;  ///< the program can no longer use it; it still has allocations or pending frees
  ReuseSwitches switches = {};
  std::uint64_t release_threshold = 0;
  Rights rights = {};
  Identity identity = {};                       ///< exportable and imported pools only
  std::shared_ptr<HeapFile> file = {};          ///< host pools and exportable pools only
  std::unique_ptr<PoolMemory> memory = {};      ///< null: imported, or of graphs
  std::shared_ptr<GraphMemory> graphs = {};     ///< not null: the memory of a device's graphs, no pool of the program
  std::shared_ptr<ImportedFile> imported = {};  ///< null: not imported
  std::uint64_t live = 0;                       ///< the number of allocations that are not freed
  std::uint64_t imported_bytes = 0;
  std::uint64_t imported_high = 0;

  [[nodiscard]] bool is_managed() const { return props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED; }
  [[nodiscard]] bool is_host() const { return device == nullptr && !is_managed(); }
  [[nodiscard]] bool is_imported() const { return imported != nullptr; }
  [[nodiscard]] int device_or_host() const { return device == nullptr ? kHost : device->ordinal; }
  /// The device that CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL names: for managed memory the preferred one.
  [[nodiscard]] int nominal_device() const {
    return props.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props.location.id : kHost;
  }
  [[nodiscard]] bool relaxes(Switch which) const {
    return device != nullptr ? device->config.relaxes(which) : (relaxed >> static_cast<unsigned>(which) & 1U) != 0;
  }
  /// The access flags of a device, or of the CPU (kHost). Every processor can access managed memory.
  [[nodiscard]] unsigned access_of(int place) const {
    return is_managed() ? unsigned{CU_MEM_ACCESS_FLAGS_PROT_READWRITE} : rights.of(place);
  }
  [[nodiscard]] std::uint64_t held() const {
    return memory != nullptr ? memory->held() : graphs != nullptr ? graphs->held() : imported_bytes;
  }
  [[nodiscard]] std::uint64_t used() const {
    return memory != nullptr ? memory->used() : graphs != nullptr ? graphs->used() : imported_bytes;
  }
};

/// Memory that the program allocated from a pool.
struct PoolAllocation {
  std::uint64_t address;
  std::uint64_t size;  ///< the requested size
  Pool* pool;
  std::uint64_t id;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
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
        streams_(streams) {}

  Pool& create(const CUmemPoolProps& props, int driver_version, const Origin& origin);
  void destroy(Pool& pool);

  /// Throws 1 for NULL, and for a pool that does not exist or was destroyed.
  Pool& find(CUmemoryPool handle);

  Pool& default_pool(const CUmemLocation& location, CUmemAllocationType type);
  Pool& current_pool(const CUmemLocation& location, CUmemAllocationType type);
  void set_current(const CUmemLocation& location, CUmemAllocationType type, Pool& pool);

  void set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value);
  static void get_attribute(const Pool& pool, CUmemPool_attribute attribute, void* value);
  void trim(Pool& pool, std::uint64_t keep);
  void set_access(Pool& pool, std::span<const CUmemAccessDesc> descriptors);
  unsigned access(const Pool& pool, const CUmemLocation& location);

  std::uint64_t allocate(Pool& pool, std::uint64_t bytes, Stream& stream, const Origin& origin);
  /// Frees in stream order. Throws a violation if work that is not ordered before the free uses the memory.
  void free(const PoolAllocation& allocation, Stream& stream, const Origin& origin);
  /// Frees at once. Throws a violation if the host has not seen the end of all work that uses the memory.
  void free_now(const PoolAllocation& allocation);

  /// Throws a violation if work that is not ordered before the point, or a pending allocation, uses the memory.
  void check_free(const PoolAllocation& allocation, const Clock& before) const;

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

  /// The allocation that contains an address; null if there is none.
  [[nodiscard]] const PoolAllocation* find_allocation(std::uint64_t address) const;

  /// An allocation that was freed in a stream that has not reached the free, or that work which is not ordered before
  /// the free uses (inflight_unmap). Work queued before may still use it.
  [[nodiscard]] const PoolAllocation* find_leaving(std::uint64_t address, std::uint64_t size) const;

  /// Throws a violation if work queued on the stream now could run before the allocation of memory that it touches.
  void check_made(Stream& stream, std::span<const Touch> touches) { check_made(streams_.before(stream), touches); }
  void check_made(const Clock& before, std::span<const Touch> touches) const;

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
  [[nodiscard]] const std::map<std::uint64_t, PoolAllocation>& allocations() const { return allocations_; }
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
  void check_not_imported_elsewhere(const PoolAllocation& allocation) const;
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
  std::map<std::uint64_t, PoolAllocation> allocations_;  // by address
  std::map<std::uint64_t, PoolAllocation> leaving_;      // by id
  std::map<int, Pool*> graph_pools_;                     // by device
  std::uint64_t next_pool_ = 1;
  std::uint64_t next_id_ = 1;
};

inline CUmemoryPool as_handle(const Pool& pool) { return reinterpret_cast<CUmemoryPool>(pool.handle); }

}  // namespace memlake::emulator
