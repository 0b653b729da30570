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

  /// The device's pool; the first time it is made from MEMLAKE_CONF.
  LivePool& pool(int device) {
    if (static_cast<unsigned>(device) < kMostDevices) [[likely]]
      if (LivePool* pool = current_[static_cast<unsigned>(device)].load(std::memory_order_acquire)) [[likely]]
        return *pool;
    return make(device);
  }

  /// Null: from now on one made from MEMLAKE_CONF.
  void set(int device, std::shared_ptr<LivePool> pool);

  /// The pool that this address was allocated from, on any device; null if there is none.
  LivePool* find(Address address);
  /// Where a free that the device's own pool refused belongs: a pool that the device had before. Throws
  /// Error(invalid_free) with the best sentence there is.
  LivePool& owner_of(Address address, int device);
  /// Those that are in use now.
  std::vector<LivePool*> all();
  /// What the device's pool may hold, as it was made.
  Limits limits_of(int device);

  /// Throws Error(config) if MEMLAKE_CONF makes no sense.
  static Conf conf_of_environment();

 private:
  struct Known {
    std::shared_ptr<LivePool> pool;
    int device;
    Limits limits;
  };

  LivePool& make(int device);
  /// Throws Error(driver_gone) in a forked child of a process that used pools. Before every lock.
  void require_this_process() const;
  void note_use();
  void require_device(int device) const;
  const Known* known_of(const LivePool* pool) const;
  void add(int device, std::shared_ptr<LivePool> pool);

  std::array<std::atomic<LivePool*>, kMostDevices> current_{};
  std::atomic<unsigned> used_in_{0};  // the process generation that first had a pool; 0: none
  std::mutex mutex_;                  // guards what is below; no other lock is taken before it
  std::vector<Known> known_;          // never shrinks: a thread may be about to use one
};

}  // namespace memlake::abi
