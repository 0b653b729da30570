#pragma once

// NativeFailure: how PyTorch's own allocator is made to fail for a request that memlake has no memory for, so that it
// does everything that a program expects of a failure.

#include <memlake.h>

#include <algorithm>

#include "routes.hpp"
#include "statistics.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

/// As long as it lives, PyTorch's own allocator may take no more than the limit of the pool leaves. For a request of a
/// private pool it may take nothing: memory of its default pool would not stay for the graph.
class NativeFailure {
 public:
  NativeFailure(CUDAAllocator& native, DeviceIndex device, const Target& from, size_t total)
      : native_(native), device_(device), outer_(private_pool()) {
    private_pool() = from.id;
    const bool is_private = from.id != kDefaultPool;
    const memlake_pool_stats_t stats = stats_of(from.memory);
    if (!is_private && stats.limit == UINT64_MAX) return;
    const uint64_t left = stats.limit - std::min(stats.limit, stats.held);
    const DeviceStats now = native.getDeviceStats(device);
    const auto allowed = static_cast<double>(left) + static_cast<double>(now.reserved_bytes[0].current);
    before_ = native.getMemoryFraction(device);
    const double share = is_private ? 0.0 : std::clamp(allowed / static_cast<double>(total), 0.0, 1.0);
    native.setMemoryFraction(std::min(share, before_), device);
    is_limited_ = true;
  }
  NativeFailure(const NativeFailure&) = delete;
  NativeFailure& operator=(const NativeFailure&) = delete;
  ~NativeFailure() {
    if (is_limited_) native_.setMemoryFraction(before_, device_);
    private_pool() = outer_;
  }

  /// The filter with which PyTorch's own allocator is told of a private pool that has memlake's memory: it gets no
  /// request of it but those that are to fail.
  static Routes::Filter filter_of(PoolId id) {
    return [id](cudaStream_t) { return private_pool() == id; };
  }

 private:
  /// The private pool of the calling thread's request that is to fail; kDefaultPool: there is none.
  static PoolId& private_pool() {
    thread_local PoolId pool = kDefaultPool;
    return pool;
  }

  CUDAAllocator& native_;
  const DeviceIndex device_;
  const PoolId outer_;
  double before_ = 1;
  bool is_limited_ = false;
};

}  // namespace memlake_torch
