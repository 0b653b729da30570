#pragma once

// ReplayDevice: an emulated device without backing that exists for one replay. It has its own counters, so that replays
// can run side by side in one process.

#include <memory>

#include "driver/counting_driver.hpp"
#include "driver/library.hpp"

namespace memlake {

class ReplayDevice {
 public:
  /// `library` must be the emulator's.
  ReplayDevice(Library& library, Bytes memory);
  ReplayDevice(const ReplayDevice&) = delete;
  ReplayDevice& operator=(const ReplayDevice&) = delete;
  /// Closes the device with all objects on it, so owners that are left need not undo them.
  ~ReplayDevice();

  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  const CountingDriver& calls() const noexcept { return counting_; }

 private:
  Library& library_;
  CountingDriver counting_;
  OrdinalRange ordinals_;
  std::shared_ptr<Device> device_;
};

}  // namespace memlake
