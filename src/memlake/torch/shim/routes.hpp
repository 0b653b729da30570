#pragma once

// Routes: which requests of a device belong to one of PyTorch's private pools (graphs, MemPool, cudagraph trees). Torch
// tells it by a filter per pool, and its own allocator asks the same filters.

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "torch_types.hpp"

namespace memlake_torch {

class Routes {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  void add(PoolId pool, Filter filter) {
    const std::lock_guard lock(mutex_);
    routes_.push_back({pool, std::move(filter)});
    count_.store(routes_.size(), std::memory_order_release);
  }

  void remove(PoolId pool) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) { return route.pool == pool; });
    if (found != routes_.end()) routes_.erase(found);
    count_.store(routes_.size(), std::memory_order_release);
  }

  /// Whether a request for this stream, made by the calling thread, belongs to a private pool.
  bool has(cudaStream_t stream) {
    if (count_.load(std::memory_order_acquire) == 0) [[likely]]
      return false;
    const std::lock_guard lock(mutex_);
    return std::any_of(routes_.begin(), routes_.end(), [&](const Route& route) { return route.filter(stream); });
  }

 private:
  struct Route {
    PoolId pool;
    Filter filter;
  };

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::vector<Route> routes_;
};

}  // namespace memlake_torch
