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
  std::uint64_t size;     ///< as asked for
  std::uint64_t charged;  ///< as taken from the device
  Device* device;
  std::uint64_t context;
  std::uint64_t id;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  Storage storage;   ///< empty for a small one, which lives in a slab
  Origin made_by;
  bool is_leaving = false;  ///< freed in the order of a stream that has not come to it (cuMemFreeAsync)
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

  /// The program has it no more; work from before may still use it.
  void begin_leaving(std::uint64_t address);
  /// Frees it then, unless its context has ended and taken it along.
  void finish_leaving(std::uint64_t address, std::uint64_t id);

  void* allocate_host(const Context& context, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void free_host(void* pointer);
  void register_host(const Context& context, void* pointer, std::uint64_t bytes, unsigned flags, const Origin& origin);
  void unregister_host(void* pointer);

  /// What contains an address; null if nothing does.
  [[nodiscard]] const Allocation* find(std::uint64_t address) const;
  /// The same for work of a stream: also what is leaving.
  [[nodiscard]] const Allocation* find_for_work(std::uint64_t address) const;
  [[nodiscard]] const HostAllocation* find_host(std::uint64_t address) const;

  void drop_context(const Context& context);

  [[nodiscard]] const std::map<std::uint64_t, Allocation>& all() const { return allocations_; }
  [[nodiscard]] const std::map<std::uint64_t, HostAllocation>& all_host() const { return host_; }

 private:
  /// 2 MiB of one device that serves allocations below 1 MiB, in slots of one size: a power of two.
  struct Slab {
    Device* device;
    std::uint64_t slot;
    AddressSpace space;
    Storage storage;
    std::uint64_t used;  ///< bytes of slots that are taken
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
