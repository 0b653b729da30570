#pragma once

// Library: a loaded driver library with its wrappers and its devices. One per file and process; never unloaded, because
// drivers keep threads.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "driver/counting_driver.hpp"
#include "driver/device.hpp"
#include "driver/failing_driver.hpp"
#include "driver/loaded_driver.hpp"
#include "driver/stream_order.hpp"

namespace memlake {

class Library {
 public:
  /// The library in this file, loaded at the first request. Throws Error(config). Does not initialise the driver.
  static Library& load(const std::string& file);

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& file() const noexcept { return loaded_.library().file(); }
  bool is_emulated() const noexcept { return loaded_.emulator().is_present(); }

  /// The driver for all code above this layer. It counts the call, then applies injected faults, then calls the
  /// library. So an injected fault counts as a call.
  Driver& driver() noexcept { return counting_; }
  CountingDriver& counting() noexcept { return counting_; }
  FailingDriver& failing() noexcept { return failing_; }
  /// The library without wrappers: for calls about the calling thread alone, which are neither counted nor made to
  /// fail.
  Driver& unwrapped() noexcept { return loaded_; }
  /// The order that the program has set up between its streams through memlake.
  StreamOrder& order() noexcept { return order_; }
  const EmulatorControl& emulator() const noexcept { return loaded_.emulator(); }

  /// cuInit; required before the devices can be used.
  void initialize();
  /// True also in a forked child of the process that called initialize(); there every call fails.
  bool is_initialized() const { return initialized_in_.load() != 0; }
  int version();
  int device_count();

  /// The Device of this ordinal. All users share one object until it is closed or the last of them drops it.
  std::shared_ptr<Device> device(int ordinal);

  /// The ordinal of the calling thread's current device; std::nullopt if no context is current.
  std::optional<int> current_device();
  /// The ordinal of the device of a created stream; std::nullopt if the driver cannot tell. Error(config) if it knows
  /// no such stream.
  std::optional<int> stream_device(CUstream created);

  /// Only on the emulator. Afterwards owners on these devices undo nothing except reservations and host memory.
  void close_devices(OrdinalRange devices);

  /// Throws CUDA_ERROR_NOT_INITIALIZED in a child that was forked after initialize(). Takes no lock.
  void require_this_process() const;

 private:
  explicit Library(SharedObject library);
  void set_open(OrdinalRange devices, bool is_open);

  LoadedDriver loaded_;
  FailingDriver failing_;
  CountingDriver counting_;
  StreamOrder order_;
  std::atomic<unsigned> initialized_in_{0};  ///< the process generation that initialised it; 0: none
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Device>> devices_;  ///< by ordinal; guarded by mutex_
  /// By ordinal, so that a device that is dropped and made anew is not asked again; guarded by mutex_.
  std::map<int, std::shared_ptr<FeatureTable>> features_;
};

}  // namespace memlake
