#pragma once

// Stream-ordered memory pools: section B of the driver's contract. The program creates and destroys a pool, or it is
// the default pool of a location. Allocations and frees happen in stream order (pool_memory.hpp).

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "chunk.hpp"
#include "pool_memory.hpp"
#include "rights.hpp"
#include "shareable.hpp"

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
  Device* device;  ///< null: host memory
  Origin made_by;
  bool is_default = false;
  bool is_exported = false;
  bool is_destroyed = false;  ///< the program can no longer use it; it still has allocations or pending frees
  ReuseSwitches switches = {};
  std::uint64_t release_threshold = 0;
  Rights rights = {};
  Identity identity = {};                       ///< exportable and imported pools only
  std::shared_ptr<HeapFile> file = {};          ///< host pools and exportable pools only
  std::unique_ptr<PoolMemory> memory = {};      ///< null: imported
  std::shared_ptr<ImportedFile> imported = {};  ///< null: not imported
  std::uint64_t live = 0;                       ///< the number of allocations that are not freed
  std::uint64_t imported_bytes = 0;
  std::uint64_t imported_high = 0;

  [[nodiscard]] bool is_imported() const { return imported != nullptr; }
  [[nodiscard]] int device_or_host() const { return device == nullptr ? kHost : device->ordinal; }
  [[nodiscard]] bool is_strict() const { return device == nullptr || device->is_strict(); }
  [[nodiscard]] bool relaxes(Switch which) const { return device != nullptr && device->config.relaxes(which); }
  /// Whether the bytes exist.
  [[nodiscard]] bool has_bytes() const { return device == nullptr || device->is_host_backed(); }
  [[nodiscard]] std::uint64_t held() const { return memory != nullptr ? memory->held() : imported_bytes; }
  [[nodiscard]] std::uint64_t used() const { return memory != nullptr ? memory->used() : imported_bytes; }
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
  CompletionRef made;  ///< the completion of the stream's work before it; null if none was pending
  Origin made_by;
  std::uint64_t file_offset = 0;  ///< imported allocations only
  std::uint64_t charged = 0;      ///< imported allocations only

  [[nodiscard]] bool contains(std::uint64_t at, std::uint64_t bytes) const {
    return at >= address && at - address < size && bytes <= size - (at - address);
  }
};

class Pools {
 public:
  Pools(Devices& devices, Chunks& chunks, Arena& arena, const InFlight& in_flight, Streams& streams)
      : devices_(devices), chunks_(chunks), arena_(arena), in_flight_(in_flight), streams_(streams) {}

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
  /// Frees at once. Throws a violation if unfinished work uses the memory.
  void free_now(const PoolAllocation& allocation);

  int export_pool(Pool& pool, CUmemAllocationHandleType type, std::uint64_t flags);
  Pool& import_pool(int fd, CUmemAllocationHandleType type, std::uint64_t flags, const Origin& origin);
  CUmemPoolPtrExportData export_pointer(std::uint64_t address);
  std::uint64_t import_pointer(Pool& pool, const CUmemPoolPtrExportData& data, const Origin& origin);

  /// The allocation that contains an address; null if there is none.
  [[nodiscard]] const PoolAllocation* find_allocation(std::uint64_t address) const;

  /// An allocation that was freed in a stream that has not reached the free. Work queued before may still use it.
  [[nodiscard]] const PoolAllocation* find_leaving(std::uint64_t address, std::uint64_t size) const;

  /// Throws a violation if work queued on the stream now could run before the allocation of memory that it touches.
  void check_made(Stream& stream, std::span<const Touch> touches);

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
  using Place = std::pair<int, int>;  // location type, id
  struct Slot {
    Pool* by_default = nullptr;
    Pool* current = nullptr;
  };

  Pool& add(const CUmemPoolProps& props, Device* device, const Origin& origin);
  Slot& slot(const CUmemLocation& location, CUmemAllocationType type);
  static Place place_of(const CUmemLocation& location);
  [[nodiscard]] bool is_known(const Identity& identity) const;
  void check_not_imported_elsewhere(const PoolAllocation& allocation) const;
  void leave(std::uint64_t id);
  void finish_free(const PoolAllocation& gone);
  void release_by_thresholds();
  void end_if_unused(Pool& pool);

  Devices& devices_;
  Chunks& chunks_;
  Arena& arena_;
  const InFlight& in_flight_;
  Streams& streams_;
  std::map<std::uint64_t, std::unique_ptr<Pool>> pools_;  // by handle
  std::map<Place, Slot> slots_;
  std::map<std::uint64_t, PoolAllocation> allocations_;  // by address
  std::map<std::uint64_t, PoolAllocation> leaving_;      // by id
  std::uint64_t next_pool_ = 1;
  std::uint64_t next_id_ = 1;
};

inline CUmemoryPool as_handle(const Pool& pool) { return reinterpret_cast<CUmemoryPool>(pool.handle); }

}  // namespace memlake::emulator
