#pragma once

// TorchPools: the pool of each of PyTorch's devices. One per process.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/conf.hpp"
#include "abi/pool_handle.hpp"
#include "base/process.hpp"
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
    return make_of_environment(device);
  }

  /// The device's pool as C programs name it. If it has none, one is made from `conf`.
  memlake_pool* handle(int device, const char* conf);
  /// The device's pool; null if it has none.
  std::shared_ptr<LivePool> known(int device);

  /// Sets the device's pool. Null: the next call of pool() makes one from MEMLAKE_CONF.
  void set(int device, std::shared_ptr<LivePool> pool);

  /// The pool from which this address was allocated, on any device; null if there is none.
  LivePool* find(Address address);
  /// For a free that the device's current pool refused: the earlier pool of the device that owns the address. If there
  /// is none, throws Error(invalid_free) with a sentence about the cause.
  LivePool& owner_of(Address address, int device);
  /// All pools that serve or served a device.
  std::vector<LivePool*> all();

  /// Calls `act(pool, device)` for the pool of the device `hint` and then for all others, until it returns true; false
  /// if none did. Locks nothing.
  template <class Act>
  bool any_of(int hint, Act&& act) {
    LivePool* first = nullptr;
    if (static_cast<unsigned>(hint) < kMostDevices) [[likely]] {
      first = current_[static_cast<unsigned>(hint)].load(std::memory_order_acquire);
      if (first != nullptr && act(*first, hint)) [[likely]]
        return true;
    }
    for (const Known* known = latest_.load(std::memory_order_acquire); known != nullptr; known = known->made_before)
      if (known->pool.get() != first && act(*known->pool, known->device)) return true;
    return false;
  }
  /// Throws Error(driver_gone) in a forked child of a process that used pools. Called before mutex_ is locked.
  void require_this_process() const;
  /// Whether this is a forked child of a process that used pools.
  [[nodiscard]] bool is_forked() const {
    const unsigned used_in = used_in_.load(std::memory_order_relaxed);
    return used_in != 0 && !is_of_generation(used_in);
  }
  /// The memory fraction of the device's pool when it became a pool of PyTorch: that of its policy.
  Bytes memory_fraction_of(int device);
  /// Whether a device gets its memory from the pool now.
  [[nodiscard]] bool serves_with(const LivePool& pool) const noexcept;

  /// Throws Error(config) if MEMLAKE_CONF is invalid.
  static Conf conf_of_environment();

 private:
  struct Known {
    std::shared_ptr<LivePool> pool;
    int device;
    Bytes memory_fraction;
    memlake_pool* handle;
    const Known* made_before;
  };

  LivePool& make(int device, const Conf& conf);
  LivePool& make_of_environment(int device);
  void note_use();
  /// Throws Error(config) if PyTorch has real devices.
  static void refuse_emulator();
  void require_device(int device) const;
  const Known* known_of(const LivePool* pool) const;
  void add(int device, std::shared_ptr<LivePool> pool);

  std::array<std::atomic<LivePool*>, kMostDevices> current_{};
  std::atomic<unsigned> used_in_{0};  // the process generation that first had a pool; 0: none
  std::mutex mutex_;                  // held while a pool is added; no thread locks it while it holds another lock
  std::atomic<const Known*> latest_{nullptr};  // a list that never shrinks: a thread may be about to use one of them
};

}  // namespace memlake::abi
