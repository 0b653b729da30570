#pragma once

// What lies at an address, whichever part of the driver put it there, and who may touch it.

#include <cstdint>
#include <string>
#include <vector>

#include "mapping.hpp"
#include "plain_memory.hpp"

namespace memlake::emulator {

/// A part of a range that is backed in one way.
struct Stretch {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t bytes;  ///< where the emulator reads and writes them; 0 on devices without backing
};

class MemoryMap {
 public:
  MemoryMap(const Mappings& mappings, const PlainMemory& plain, const Arena& arena)
      : mappings_(mappings), plain_(plain), arena_(arena) {}

  /// Device memory, or host memory the driver knows and devices can reach.
  [[nodiscard]] bool is_device_reachable(std::uint64_t address) const;
  [[nodiscard]] bool is_device_address(std::uint64_t address) const { return arena_.contains(address); }

  /// Is the whole range host memory that was pinned or registered?
  [[nodiscard]] bool is_pinned(std::uint64_t address, std::uint64_t size) const;

  /// What a copy engine of this context does: rights count on mapped memory; plain allocations of any device and host
  /// memory are within its reach. Returns "" or why it may not.
  [[nodiscard]] std::string why_not_copy(const Context& context, const Touch& touch) const;

  /// What code on the device does: plain allocations of other devices need peer access, and pageable memory is out of
  /// reach.
  [[nodiscard]] std::string why_not_kernel(const Context& context, const Touch& touch) const;

  /// pre: the range was found touchable.
  [[nodiscard]] std::vector<Stretch> stretches(std::uint64_t address, std::uint64_t size) const;
  [[nodiscard]] bool has_bytes(std::uint64_t address, std::uint64_t size) const;

 private:
  struct Step {
    std::uint64_t end;  ///< where what lies at the address ends
    const Mapping* mapping = nullptr;
    const Mapping::Part* part = nullptr;
    const Allocation* allocation = nullptr;
    const HostAllocation* host = nullptr;
  };

  [[nodiscard]] Step look(std::uint64_t address) const;
  [[nodiscard]] static std::uint64_t bytes_at(const Step& step, std::uint64_t address);
  [[nodiscard]] std::string why_not(const Context& context, const Touch& touch, bool is_kernel) const;

  const Mappings& mappings_;
  const PlainMemory& plain_;
  const Arena& arena_;
};

}  // namespace memlake::emulator
