#pragma once

// Finds the memory at an address in all parts of the driver, and checks who may access it.

#include <cstdint>
#include <string>
#include <vector>

#include "memory/mapping.hpp"
#include "memory/plain_memory.hpp"
#include "pools/pools.hpp"

namespace memlake::emulator {

/// A part of a range whose bytes are contiguous for the emulator, or that has no bytes.
struct Stretch {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t bytes;  ///< the address at which the emulator accesses the bytes; 0 on devices without backing
};

class MemoryMap {
 public:
  MemoryMap(const Mappings& mappings, const PlainMemory& plain, const Pools& pools, const Arena& arena)
      : mappings_(mappings), plain_(plain), pools_(pools), arena_(arena) {}

  /// Whether the address is a device address, or host memory that the driver knows and devices can access.
  [[nodiscard]] bool is_device_reachable(std::uint64_t address) const;
  /// Whether the address is in the window of device addresses and does not belong to a pool of host memory.
  [[nodiscard]] bool is_device_address(std::uint64_t address) const;
  /// Whether the program may use the address as host memory: every address outside the window, pools of host memory,
  /// and managed memory.
  [[nodiscard]] bool is_host_address(std::uint64_t address) const;
  [[nodiscard]] bool is_managed(std::uint64_t address) const;
  /// The end of the managed memory that begins at the address, at most the end of the range.
  [[nodiscard]] std::uint64_t end_of_managed(std::uint64_t address, std::uint64_t size) const;

  /// Whether the whole range is pinned or registered host memory, or memory of a host pool.
  [[nodiscard]] bool is_pinned(std::uint64_t address, std::uint64_t size) const;

  /// Whether an address that was calculated from another one is still what that one was: device memory, the same pinned
  /// host memory, or host memory of the program.
  [[nodiscard]] bool is_same_kind(std::uint64_t base, std::uint64_t address) const;

  /// The time of a check: at the program's call, or when the stream reaches the work. Memory that is freed in stream
  /// order no longer exists for later calls, but still exists for work that was queued before the free.
  enum class Moment { call, work };

  /// Checks an access by a copy engine of this context. It needs rights to mapped memory and to pools of device memory.
  /// It can access plain allocations of all devices and host memory. Returns "" or the reason why it may not.
  [[nodiscard]] std::string why_not_copy(const Context& context, const Touch& touch, Moment moment) const;

  /// Checks an access by code on the device when the stream reaches it. In addition it needs peer access to plain
  /// allocations of other devices, and rights to pools of host memory. It cannot access pageable memory.
  [[nodiscard]] std::string why_not_kernel(const Context& context, const Touch& touch) const;

  /// Checks whether an earlier call freed the memory in stream order. Returns "" or the sentence.
  [[nodiscard]] std::string why_gone(const Touch& touch) const;

  /// Whether synchronous functions wait for their work on this memory in any case (SYNC_MEMOPS).
  [[nodiscard]] bool syncs_memops(std::uint64_t address, std::uint64_t size) const;

  /// Notes the work as the newest use of its stream, in all memory that it touches.
  void note_uses(const Work& work, const Order& order) const;

  /// pre: a check allowed the access to the range.
  [[nodiscard]] std::vector<Stretch> stretches(std::uint64_t address, std::uint64_t size) const;
  [[nodiscard]] bool has_bytes(std::uint64_t address, std::uint64_t size) const;

 private:
  struct Step {
    std::uint64_t end;  ///< the end of the memory at the address
    const Mapping* mapping = nullptr;
    const Mapping::Part* part = nullptr;
    const Allocation* allocation = nullptr;
    const HostAllocation* host = nullptr;
    const PoolAllocation* pooled = nullptr;
  };

  [[nodiscard]] Step look(std::uint64_t address, Moment moment) const;
  [[nodiscard]] static std::uint64_t bytes_at(const Step& step, std::uint64_t address);

  // Each returns "" or the reason why the access is not allowed. `address` is the place in `touch` that was reached.
  [[nodiscard]] std::string why_not(const Context& context, const Touch& touch, bool is_kernel, Moment moment) const;
  /// Of the memory of one step.
  [[nodiscard]] std::string why_not_step(const Context& context, const Step& step, const Touch& touch,
                                         std::uint64_t address, bool is_kernel) const;
  [[nodiscard]] static std::string why_not_pooled(const Context& context, const PoolAllocation& pooled,
                                                  const Touch& touch, bool is_kernel);
  [[nodiscard]] static std::string why_not_mapped(const Context& context, const Step& step, std::uint64_t address,
                                                  bool is_write);
  [[nodiscard]] static std::string why_not_plain(const Context& context, const Allocation& allocation,
                                                 const Touch& touch, std::uint64_t address, bool is_kernel);
  /// Of an address at which the driver knows no memory.
  [[nodiscard]] std::string why_not_unknown(const Touch& touch, std::uint64_t address, bool is_kernel) const;

  const Mappings& mappings_;
  const PlainMemory& plain_;
  const Pools& pools_;
  const Arena& arena_;
};

}  // namespace memlake::emulator
