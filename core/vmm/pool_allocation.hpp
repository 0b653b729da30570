#pragma once

// PoolAllocation: owns memory of one of CUDA's memory pools, allocated in the order of a stream.

#include <memory>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "vmm/memory_pool.hpp"

namespace memlake {

class PoolAllocation {
 public:
  /// cuMemAllocFromPoolAsync: the memory is there for work of the stream from now on. pre: size > 0.
  PoolAllocation(const MemoryPool& pool, Bytes size, CUstream stream);
  PoolAllocation(PoolAllocation&&) noexcept = default;
  PoolAllocation& operator=(PoolAllocation&&) = delete;
  /// cuMemFree, which does not wait here: whoever drops it knows that nothing uses it.
  ~PoolAllocation();

  [[nodiscard]] AddressRange range() const noexcept { return range_; }

  /// cuMemFreeAsync: gone for work of the stream from now on. If it fails it is still owned.
  void close(CUstream stream);

 private:
  void free();

  std::shared_ptr<Device> device_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
