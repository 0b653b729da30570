#pragma once

// What lies at an address, whichever part of the driver put it there, and who may touch it.

#include <cstdint>
#include <string>
#include <vector>

#include "mapping.hpp"
#include "plain_memory.hpp"
#include "pool.hpp"

namespace memlake::emulator {

/// A part of a range that is backed in one way.
struct Stretch {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t bytes;  ///< where the emulator reads and writes them; 0 on devices without backing
};

class MemoryMap {
 public:
  MemoryMap(const Mappings& mappings, const PlainMemory& plain, const Pools& pools, const Arena& arena)
      : mappings_(mappings), plain_(plain), pools_(pools), arena_(arena) {}

  /// Device memory, or host memory the driver knows and devices can reach.
  [[nodiscard]] bool is_device_reachable(std::uint64_t address) const;
  /// Not so: host memory, also that of a pool.
  [[nodiscard]] bool is_device_address(std::uint64_t address) const;

  /// Is the whole range host memory that was pinned or registered?
  [[nodiscard]] bool is_pinned(std::uint64_t address, std::uint64_t size) const;

  /// When it is asked: by the program's call, or when the stream comes to the work. What was freed in between in the
  /// order of a stream is gone for the program, and there for work from before.
  enum class Moment { call, work };

  /// What a copy engine of this context does: rights count on mapped memory and on pools of device memory; plain
  /// allocations of any device and host memory are within its reach. Returns "" or why it may not.
  [[nodiscard]] std::string why_not_copy(const Context& context, const Touch& touch, Moment moment) const;

  /// What code on the device does: plain allocations of other devices need peer access, and pageable memory is out of
  /// reach. It is asked when its turn comes.
  [[nodiscard]] std::string why_not_kernel(const Context& context, const Touch& touch) const;

  /// Was the memory freed already, before the program's call that names it? Returns "" or the sentence.
  [[nodiscard]] std::string why_gone(const Touch& touch) const;

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
    const PoolAllocation* pooled = nullptr;
  };

  [[nodiscard]] Step look(std::uint64_t address, Moment moment) const;
  [[nodiscard]] static std::uint64_t bytes_at(const Step& step, std::uint64_t address);
  [[nodiscard]] std::string why_not(const Context& context, const Touch& touch, bool is_kernel, Moment moment) const;
  [[nodiscard]] static std::string why_not_pooled(const Context& context, const PoolAllocation& pooled,
                                                  const Touch& touch, bool is_kernel);

  const Mappings& mappings_;
  const PlainMemory& plain_;
  const Pools& pools_;
  const Arena& arena_;
};

}  // namespace memlake::emulator
