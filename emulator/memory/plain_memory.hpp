#pragma once

// Memory outside virtual memory management: cuMemAlloc on a device, managed memory, pinned and registered memory on the
// host.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "basics/origin.hpp"
#include "devices/context.hpp"
#include "memory/arena.hpp"
#include "memory/managed_pages.hpp"
#include "system/address_space.hpp"
#include "system/ipc_handle.hpp"
#include "system/storage.hpp"
#include "work/uses.hpp"

namespace memlake::emulator {

/// An allocation that other processes may open: the file that its handle names. The handle is void when it is gone.
struct IpcExport {
  OwnedFile file;
  IpcHeader header;
};

/// An allocation of another process, opened in one context.
struct IpcImport {
  OwnedFile bytes;       ///< the file with the bytes; holds the lock that shows the exporter that it is in use
  IpcHeader header;      ///< of the exporter's file
  std::int32_t process;  ///< the exporter
  std::uint64_t block;   ///< the first page
  std::uint64_t block_size;
  std::uint64_t opens = 1;  ///< the number of closes that it needs
};

struct Allocation {
  std::uint64_t address;
  std::uint64_t size;     ///< the requested size
  std::uint64_t charged;  ///< counted as used memory of the device, or as managed memory
  Device* device;
  std::uint64_t context;
  std::uint64_t id;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  Storage storage;   ///< empty for a small allocation, which is in a slab
  Origin made_by;
  bool is_managed = false;   ///< cuMemAllocManaged; `device` is the device that was current then
  bool is_variable = false;  ///< of a module; only the end of the module frees it
  bool is_leaving = false;   ///< freed by cuMemFreeAsync in a stream that has not reached the free
  mutable Uses uses = {};    ///< by work of streams
  std::unique_ptr<IpcExport> exported = {};
  std::unique_ptr<IpcImport> imported = {};  ///< null: memory of this process
  Device* opened_on = nullptr;               ///< imported allocations only: the device of the context
  mutable bool syncs_memops = false;         ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
};

struct HostAllocation {
  std::uint64_t address;
  std::uint64_t size;
  unsigned flags;
  bool is_registered;  ///< memory of the program itself (cuMemHostRegister)
  std::uint64_t context;
  std::uint64_t id;
  Origin made_by;
  mutable bool syncs_memops = false;  ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
};

class PlainMemory {
 public:
  PlainMemory(Arena& arena, ManagedMemory& managed, ManagedPages& pages)
      : arena_(arena), managed_(managed), pages_(pages) {}

  std::uint64_t allocate(Context& context, std::uint64_t bytes, const Origin& origin);
  std::uint64_t allocate_managed(Context& context, std::uint64_t bytes, const Origin& origin);
  /// Allocates a variable of a module.
  std::uint64_t allocate_variable(Context& context, std::uint64_t bytes, bool is_managed, const Origin& origin);
  void free(std::uint64_t address);

  /// Ends the allocation for the program. Work that was queued before may still use it.
  void begin_leaving(std::uint64_t address);
  /// Frees the allocation when the stream has reached the free, unless the end of its context has freed it already.
  void finish_leaving(std::uint64_t address, std::uint64_t id);

  /// Writes the handle by which another process can open the allocation. Throws Refusal.
  void export_handle(std::uint64_t address, void* handle);
  /// Opens an allocation of another process, or counts one more opening of it. Throws Refusal.
  std::uint64_t open(Context& context, Devices& devices, const void* handle, const Origin& origin);
  /// Ends one opening. pre: the last one only if no unfinished work uses the memory.
  void close(std::uint64_t address);
  /// Whether another process has the allocation open.
  [[nodiscard]] bool is_open_elsewhere(const Allocation& allocation) const;
  /// Frees memory of allocations that went while another process had them open, and now has no more.
  void reclaim();

  void* allocate_host(const Context& context, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void free_host(void* pointer);
  void register_host(const Context& context, void* pointer, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void unregister_host(void* pointer);

  /// The allocation that contains an address; null if there is none.
  [[nodiscard]] const Allocation* find(std::uint64_t address) const;
  /// The allocation at an address for work of a stream, which may also use allocations that are leaving.
  [[nodiscard]] const Allocation* find_for_work(std::uint64_t address) const;
  [[nodiscard]] const HostAllocation* find_host(std::uint64_t address) const;

  void drop_context(const Context& context);

  [[nodiscard]] const std::map<std::uint64_t, Allocation>& all() const { return allocations_; }
  [[nodiscard]] const std::map<std::uint64_t, HostAllocation>& all_host() const { return host_; }

 private:
  /// 2 MiB of one device for allocations below 1 MiB, in slots of one size, a power of two.
  struct Slab {
    Device* device;
    std::uint64_t slot;
    AddressSpace space;
    Storage storage;
    std::uint64_t used;  ///< bytes of the used slots
  };
  /// The slabs of a device and a slot size that have a free slot, by address.
  using WithRoom = std::map<std::pair<int, std::uint64_t>, std::set<std::uint64_t>>;

  std::uint64_t add(Allocation made);
  std::uint64_t take_addresses(std::uint64_t size, std::uint64_t alignment);
  Storage show(Device& device, std::uint64_t address, std::uint64_t size);
  void hide(std::uint64_t address, std::uint64_t size, const Storage& storage);
  /// Where the bytes of an allocation of this process are.
  [[nodiscard]] std::pair<int, std::uint64_t> place_in_file(const Allocation& allocation) const;
  std::uint64_t map_opened(const Device& device, IpcImport& import, std::uint64_t offset, std::uint64_t size);
  void give_back(Allocation& gone);
  std::uint64_t take_small(Device& device, std::uint64_t size);
  void give_back_small(std::uint64_t address);

  Arena& arena_;
  ManagedMemory& managed_;
  ManagedPages& pages_;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, HostAllocation> host_;
  std::map<std::uint64_t, Slab> slabs_;
  WithRoom with_room_;
  std::vector<Allocation> kept_;  // freed, but another process has them open
  std::uint64_t next_id_ = 1;
};

}  // namespace memlake::emulator
