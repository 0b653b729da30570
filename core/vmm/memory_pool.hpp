#pragma once

// MemoryPool: owns one of CUDA's own memory pools (cuMemPoolCreate), which allocates and frees in stream order.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class MemoryPool {
 public:
  /// cuMemPoolCreate. `most`: how much it may hold; 0: no limit. Error(config) if the device does not support pools.
  MemoryPool(std::shared_ptr<Device> device, Bytes most);
  MemoryPool(MemoryPool&&) noexcept = default;
  MemoryPool& operator=(MemoryPool&&) = delete;
  /// The driver keeps the pool until all allocations from it are freed.
  ~MemoryPool();

  [[nodiscard]] CUmemoryPool handle() const noexcept { return handle_; }
  [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }

  /// Attributes 1 to 3 are switches, the others numbers of bytes.
  void set(CUmemPool_attribute attribute, std::uint64_t value);
  /// Uses the library's driver, not the device's: reading a figure must not change the call counts of memlake's pool.
  [[nodiscard]] std::uint64_t get(CUmemPool_attribute attribute) const;

  /// Releases memory that is free as seen by the host, as long as at least `keep` bytes stay held.
  void trim(Bytes keep);

  /// Sets the rights of each device on the pool's present and future memory.
  void set_access(const std::vector<CUmemAccessDesc>& descriptors);

 private:
  void destroy();

  std::shared_ptr<Device> device_;
  CUmemoryPool handle_ = nullptr;
  Ownership ownership_;
};

}  // namespace memlake
