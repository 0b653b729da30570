#pragma once

// Stream-ordered memory pools: section B of the driver's contract. A pool is made and destroyed by the program, or is
// the default one of a place; allocations and frees happen in the order of streams (pool_memory.hpp).

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

/// A pool's file, as another process imported it: which parts of it are imported here.
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
  bool is_destroyed = false;  ///< the program has it no more; allocations still live
  ReuseSwitches switches = {};
  std::uint64_t release_threshold = 0;
  Rights rights = {};
  Identity identity = {};                       ///< of one that can be exported, or was imported
  std::shared_ptr<HeapFile> file = {};          ///< of its own: host memory, or memory that can be exported
  std::unique_ptr<PoolMemory> memory = {};      ///< null: imported
  std::shared_ptr<ImportedFile> imported = {};  ///< null: made here
  std::uint64_t live = 0;                       ///< allocations that were not freed
  std::uint64_t imported_bytes = 0;
  std::uint64_t imported_high = 0;

  [[nodiscard]] bool is_imported() const { return imported != nullptr; }
  [[nodiscard]] int device_or_host() const { return device == nullptr ? kHost : device->ordinal; }
  [[nodiscard]] bool is_strict() const { return device == nullptr || device->is_strict(); }
  [[nodiscard]] bool relaxes(Switch which) const { return device != nullptr && device->config.relaxes(which); }
  /// Are the bytes real?
  [[nodiscard]] bool has_bytes() const { return device == nullptr || device->is_host_backed(); }
  [[nodiscard]] std::uint64_t held() const { return memory != nullptr ? memory->held() : imported_bytes; }
  [[nodiscard]] std::uint64_t used() const { return memory != nullptr ? memory->used() : imported_bytes; }
};

/// Memory that the program has from a pool.
struct PoolAllocation {
  std::uint64_t address;
  std::uint64_t size;  ///< as asked for
  Pool* pool;
  std::uint64_t id;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  std::uint64_t block;
  std::uint64_t block_size;
  // Where in the order of things it was made.
  std::uint64_t stream;
  std::uint64_t position;
  std::uint64_t context;
  CompletionRef made;  ///< null: there was nothing to wait for
  Origin made_by;
  std::uint64_t file_offset = 0;  ///< of an imported one
  std::uint64_t charged = 0;      ///< of an imported one

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

  /// Throws 1 for NULL, and for a pool that does not exist (any more).
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
  /// In the order of the stream. Throws a violation if work that does not come before it uses the memory.
  void free(const PoolAllocation& allocation, Stream& stream, const Origin& origin);
  /// At once: the caller says that nobody uses it any more, and a violation is thrown if somebody does.
  void free_now(const PoolAllocation& allocation);

  int export_pool(Pool& pool, CUmemAllocationHandleType type, std::uint64_t flags);
  Pool& import_pool(int fd, CUmemAllocationHandleType type, std::uint64_t flags, const Origin& origin);
  CUmemPoolPtrExportData export_pointer(std::uint64_t address);
  std::uint64_t import_pointer(Pool& pool, const CUmemPoolPtrExportData& data, const Origin& origin);

  /// What contains an address; null if nothing does.
  [[nodiscard]] const PoolAllocation* find_allocation(std::uint64_t address) const;

  /// What was freed in the order of a stream that has not come to it: work from before may still use it.
  [[nodiscard]] const PoolAllocation* find_leaving(std::uint64_t address, std::uint64_t size) const;

  /// Throws a violation if work queued on the stream now could run before memory it touches is there.
  void check_made(Stream& stream, std::span<const Touch> touches);

  /// The host has waited for everything before a point, or for everything of a context: memory is released by the
  /// pools' thresholds.
  void synchronized(const Clock& point);
  void synchronized(const Clock& point, const Context& context);

  /// Ends what only waited for work that ran where it should not.
  void reclaim();

  /// Everything of a device goes: it was closed, or its last context ended. pre: nothing runs on it.
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
