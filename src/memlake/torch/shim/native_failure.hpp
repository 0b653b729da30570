#pragma once

// NativeFailure: how PyTorch's own allocator is made to fail for a request that memlake has no memory for, so that it
// does everything that a program expects of a failure. NativeShare: requests of other threads do not fail with it.

#include <memlake.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "failure_report.hpp"
#include "routes.hpp"
#include "statistics.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

/// The share of a device that PyTorch's own allocator may take. It has one number for all threads, and looks at it
/// under its lock, after it has called PyTorch's callbacks. So each request sets its own share there, as long as any
/// request is to fail.
class NativeShare {
 public:
  NativeShare(CUDAAllocator& native, DeviceIndex device) : native_(native), device_(device) {}

  /// Of requests that are not to fail.
  double get() const {
    const std::lock_guard lock(mutex_);
    return failing_ > 0 ? share_ : native_.getMemoryFraction(device_);
  }
  void set(double share) {
    TORCH_CHECK(0 <= share && share <= 1, "invalid fraction:", share, ". Please set within [0, 1].");  // as PyTorch
    const std::lock_guard lock(mutex_);
    share_ = share;
    if (failing_ == 0) native_.setMemoryFraction(share, device_);
  }

  void begin_failure() {
    const std::lock_guard lock(mutex_);
    if (failing_ == 0) share_ = native_.getMemoryFraction(device_);
    ++failing_;
  }
  void end_failure() {
    const std::lock_guard lock(mutex_);
    if (--failing_ == 0) native_.setMemoryFraction(share_, device_);
  }

  /// Observers are told this share of the device, until the next request. pre: begin_failure().
  void show(double share) {
    const std::lock_guard lock(mutex_);
    native_.setMemoryFraction(share, device_);
  }

  /// The request that calls PyTorch's callbacks may take no more than this. pre: the lock of PyTorch's own allocator is
  /// held.
  void apply(double most) {
    const std::lock_guard lock(mutex_);
    if (failing_ > 0) native_.setMemoryFraction(std::min(most, share_), device_);
  }

 private:
  CUDAAllocator& native_;
  const DeviceIndex device_;
  mutable std::mutex mutex_;  // guards the members below; PyTorch's own allocator takes no lock for its fraction
  int failing_ = 0;           // requests that are to fail
  double share_ = 1;          // of the others, while any is to fail
};

/// As long as it lives, the calling thread's requests of PyTorch's own allocator may take no more than the limit of the
/// pool leaves. For a request of a private pool it may take nothing: memory of its default pool would not stay for the
/// graph. When that allocator has failed, the observers are told how much PyTorch may use, not that share.
class NativeFailure {
 public:
  /// `total`: of the device. `fraction`: what PyTorch may use of it.
  NativeFailure(CUDAAllocator& native, DeviceIndex device, NativeShare& share, const Target& from, size_t total,
                double fraction, FailureReport::Levels levels)
      : share_(share), device_(device), pool_(from.id), told_(fraction), outer_(current()) {
    const memlake_pool_stats_t stats = stats_of(from.memory);
    if (stats.limit != UINT64_MAX) {
      const auto of_native = static_cast<double>(native.getDeviceStats(device).reserved_bytes[0].current);
      const auto share_of = [&](uint64_t bytes) {
        return std::clamp((static_cast<double>(bytes) + of_native) / static_cast<double>(total), 0.0, 1.0);
      };
      most_ = share_of(stats.limit - std::min(stats.limit, stats.held));
      told_ = std::min(told_, share_of(stats.limit));
    }
    if (pool_ != kDefaultPool) most_ = 0;
    is_limited_ = most_ < 1 || told_ < 1;
    if (is_limited_) share_.begin_failure();
    current() = this;
    report_.begin([this] { tell(); }, std::move(levels));
  }
  NativeFailure(const NativeFailure&) = delete;
  NativeFailure& operator=(const NativeFailure&) = delete;
  ~NativeFailure() {
    report_.end();
    if (is_limited_) share_.end_failure();
    current() = outer_;
  }

  /// The share that the calling thread's request may take; 1: it is not to fail.
  static double most_of(DeviceIndex device) {
    const NativeFailure* const failure = current();
    return failure != nullptr && failure->device_ == device ? failure->most_ : 1;
  }
  static bool is_under_way() { return current() != nullptr; }

  /// Whether the calling thread's request is one of this private pool that is to fail.
  static bool is_of(PoolId id) { return current() != nullptr && current()->pool_ == id; }

 private:
  /// PyTorch's own allocator has failed. It calls the observers next, with what its share allows. They may make
  /// requests of their own.
  void tell() {
    pool_ = kDefaultPool;
    most_ = 1;
    if (is_limited_) share_.show(told_);
  }

  /// The calling thread's request that is to fail; null: there is none.
  static NativeFailure*& current() {
    thread_local NativeFailure* failure = nullptr;
    return failure;
  }

  NativeShare& share_;
  const DeviceIndex device_;
  PoolId pool_;  // kDefaultPool: none that is private
  double told_;  // the share of the device that PyTorch may use
  NativeFailure* const outer_;
  double most_ = 1;
  bool is_limited_ = false;
  FailureReport report_;
};

}  // namespace memlake_torch
