#pragma once

// TorchPools: the pool of each of PyTorch's devices. One per process.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/conf.hpp"
#include "runtime/live_pool.hpp"

namespace memlake::abi {

class TorchPools {
 public:
  static constexpr int kMostDevices = 64;

  /// Never destroyed: PyTorch frees memory while the process ends.
  static TorchPools& of_this_process();

  /// The device's pool. If it has none, one is made from MEMLAKE_CONF.
  LivePool& pool(int device) {
    if (static_cast<unsigned>(device) < kMostDevices) [[likely]]
      if (LivePool* pool = current_[static_cast<unsigned>(device)].load(std::memory_order_acquire)) [[likely]]
        return *pool;
    return make(device);
  }

  /// Sets the device's pool. Null: the next call of pool() makes one from MEMLAKE_CONF.
  void set(int device, std::shared_ptr<LivePool> pool);

  /// The pool from which this address was allocated, on any device; null if there is none.
  LivePool* find(Address address);
  /// For a free that the device's current pool refused: the earlier pool of the device that owns the address. If there
  /// is none, throws Error(invalid_free) with a sentence about the cause.
  LivePool& owner_of(Address address, int device);
  /// The current pools of all devices.
  std::vector<LivePool*> all();
  /// The limits of the device's pool at the time when it became a pool of PyTorch.
  Limits limits_of(int device);

  /// Throws Error(config) if MEMLAKE_CONF is invalid.
  static Conf conf_of_environment();

 private:
  struct Known {
    std::shared_ptr<LivePool> pool;
    int device;
    Limits limits;
  };

  LivePool& make(int device);
  /// Throws Error(driver_gone) in a forked child of a process that used pools. Called before mutex_ is locked.
  void require_this_process() const;
  void note_use();
  void require_device(int device) const;
  const Known* known_of(const LivePool* pool) const;
  void add(int device, std::shared_ptr<LivePool> pool);

  std::array<std::atomic<LivePool*>, kMostDevices> current_{};
  std::atomic<unsigned> used_in_{0};  // the process generation that first had a pool; 0: none
  std::mutex mutex_;                  // guards the members below; no thread locks it while it holds another lock
  std::vector<Known> known_;          // never shrinks: a thread may be about to use one of the pools
};

}  // namespace memlake::abi
