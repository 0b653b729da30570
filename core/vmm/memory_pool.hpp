#pragma once

// MemoryPool: owns one of CUDA's own memory pools (cuMemPoolCreate), whose memory is handed out in the order of
// streams.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class MemoryPool {
 public:
  /// cuMemPoolCreate. `most`: what it may hold, 0 for no limit of its own. Error(config) if the device has no pools.
  MemoryPool(std::shared_ptr<Device> device, Bytes most);
  MemoryPool(MemoryPool&&) noexcept = default;
  MemoryPool& operator=(MemoryPool&&) = delete;
  /// The driver keeps it until what was allocated from it is freed.
  ~MemoryPool();

  [[nodiscard]] CUmemoryPool handle() const noexcept { return handle_; }
  [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }

  /// Attributes 1 to 3 are switches, the others numbers of bytes.
  void set(CUmemPool_attribute attribute, std::uint64_t value);
  /// Past a driver that counts for somebody: a question about what was done is none of it.
  [[nodiscard]] std::uint64_t get(CUmemPool_attribute attribute) const;

  /// Gives memory back that is free as far as the host knows, as long as at least `keep` bytes stay.
  void trim(Bytes keep);

  /// What each of the devices may do with the memory, what there is and what will be.
  void set_access(const std::vector<CUmemAccessDesc>& descriptors);

 private:
  void destroy();

  std::shared_ptr<Device> device_;
  CUmemoryPool handle_ = nullptr;
  Ownership ownership_;
};

}  // namespace memlake
