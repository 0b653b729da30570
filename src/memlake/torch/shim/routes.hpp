#pragma once

// Routes: which requests of a device belong to one of PyTorch's private pools (graphs, MemPool, cudagraph trees).
// PyTorch tells it by a filter per pool. PyTorch's own allocator has each filter, too, and owns it. So a route ends
// also if the program ends it while memlake is not installed, when PyTorch's own allocator alone is told.

#include <memlake.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "torch_types.hpp"

namespace memlake_torch {

/// The pool of PyTorch's that a request belongs to.
struct Target {
  PoolId id = kDefaultPool;
  memlake_pool* memory = nullptr;  ///< null: PyTorch's own allocator has the memory of this pool

  /// Null if there is no memory, or for another reason that memlake_last_error() tells. pre: memory != nullptr.
  void* try_take(size_t size, cudaStream_t stream) const {
    if (id == kDefaultPool) [[likely]]
      return memlake_pool_try_allocate(memory, size, stream);
    return memlake_pool_try_allocate_in_graph(memory, id.first, id.second, size, stream);
  }
};

class Routes {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  void add(Target target, const std::shared_ptr<const Filter>& filter) {
    const std::lock_guard lock(mutex_);
    const auto has_ended = [](const Route& route) { return route.filter.expired(); };
    routes_.erase(std::remove_if(routes_.begin(), routes_.end(), has_ended), routes_.end());
    routes_.push_back({target, filter});
    count_.store(routes_.size(), std::memory_order_release);
  }

  void remove(PoolId pool) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) { return route.target.id == pool; });
    if (found != routes_.end()) routes_.erase(found);
    count_.store(routes_.size(), std::memory_order_release);
  }

  /// Where a request for this stream goes that the calling thread makes; nothing: to the default pool.
  std::optional<Target> find(cudaStream_t stream) {
    if (count_.load(std::memory_order_acquire) == 0) [[likely]]
      return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto takes = [&](const Route& route) {
      const auto filter = route.filter.lock();
      return filter != nullptr && (*filter)(stream);
    };
    // Of nested pools PyTorch chooses the inner one since 2.11, and the outer one before (its issue 161193).
#if TORCH_VERSION_MINOR >= 11
    const auto found = std::find_if(routes_.rbegin(), routes_.rend(), takes);
    if (found == routes_.rend()) return std::nullopt;
#else
    const auto found = std::find_if(routes_.begin(), routes_.end(), takes);
    if (found == routes_.end()) return std::nullopt;
#endif
    return found->target;
  }

 private:
  struct Route {
    Target target;
    std::weak_ptr<const Filter> filter;
  };

  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::vector<Route> routes_;  // oldest first
};

}  // namespace memlake_torch
