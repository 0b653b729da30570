#pragma once

// PoolAllocation: owns memory from one of CUDA's memory pools, allocated in stream order.

#include <memory>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "vmm/memory_pool.hpp"

namespace memlake {

class PoolAllocation {
 public:
  /// cuMemAllocFromPoolAsync: later work of the stream may use the memory. pre: size > 0.
  PoolAllocation(const MemoryPool& pool, Bytes size, CUstream stream);
  PoolAllocation(PoolAllocation&&) noexcept = default;
  PoolAllocation& operator=(PoolAllocation&&) = delete;
  /// cuMemFree, which does not wait for memory of a pool. pre: no work uses the memory.
  ~PoolAllocation();

  [[nodiscard]] AddressRange range() const noexcept { return range_; }

  /// cuMemFreeAsync: later work of the stream must not use the memory. If the call fails, the memory is still owned.
  void close(CUstream stream);

 private:
  void free();

  std::shared_ptr<Device> device_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
