#pragma once

// ReplayDevice: an emulated device without backing that exists for one replay, with counters of its own, so that
// replays can run side by side in one process.

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
  /// Removes the device with all that is on it: owners that are left have nothing to undo.
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
