#pragma once

// One stream-ordered memory pool. The program creates and destroys it, or it is the default pool of a location.

#include <cstdint>
#include <map>
#include <memory>

#include "basics/rights.hpp"
#include "pools/graph_memory.hpp"
#include "pools/pool_memory.hpp"
#include "system/shareable.hpp"

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

inline CUmemoryPool as_handle(const Pool& pool) { return reinterpret_cast<CUmemoryPool>(pool.handle); }

}  // namespace memlake::emulator
