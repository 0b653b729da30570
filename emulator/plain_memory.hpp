#pragma once

// Memory outside virtual memory management: cuMemAlloc on a device, pinned and registered memory on the host.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "address_space.hpp"
#include "arena.hpp"
#include "context.hpp"
#include "origin.hpp"
#include "storage.hpp"

namespace memlake::emulator {

struct Allocation {
  std::uint64_t address;
  std::uint64_t size;     ///< the requested size
  std::uint64_t charged;  ///< counted as used memory of the device
  Device* device;
  std::uint64_t context;
  std::uint64_t id;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  Storage storage;   ///< empty for a small allocation, which is in a slab
  Origin made_by;
  bool is_leaving = false;  ///< freed by cuMemFreeAsync in a stream that has not reached the free
};

struct HostAllocation {
  std::uint64_t address;
  std::uint64_t size;
  unsigned flags;
  bool is_registered;  ///< memory of the program itself (cuMemHostRegister)
  std::uint64_t context;
  std::uint64_t id;
  Origin made_by;
};

class PlainMemory {
 public:
  explicit PlainMemory(Arena& arena) : arena_(arena) {}

  std::uint64_t allocate(Context& context, std::uint64_t bytes, const Origin& origin);
  void free(std::uint64_t address);

  /// Ends the allocation for the program. Work that was queued before may still use it.
  void begin_leaving(std::uint64_t address);
  /// Frees the allocation when the stream has reached the free, unless the end of its context has freed it already.
  void finish_leaving(std::uint64_t address, std::uint64_t id);

  void* allocate_host(const Context& context, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void free_host(void* pointer);
  void register_host(const Context& context, void* pointer, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void unregister_host(void* pointer);

  /// The allocation that contains an address; null if there is none.
  [[nodiscard]] const Allocation* find(std::uint64_t address) const;
  /// The same for work of a stream, which may also use allocations that are leaving.
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

  std::uint64_t take_addresses(std::uint64_t size, std::uint64_t alignment);
  Storage show(Device& device, std::uint64_t address, std::uint64_t size);
  void hide(std::uint64_t address, std::uint64_t size, const Storage& storage);
  std::uint64_t take_small(Device& device, std::uint64_t size);
  void give_back_small(std::uint64_t address);

  Arena& arena_;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, HostAllocation> host_;
  std::map<std::uint64_t, Slab> slabs_;
  WithRoom with_room_;
  std::uint64_t next_id_ = 1;
};

}  // namespace memlake::emulator
