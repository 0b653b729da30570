#pragma once

// Device: one device of a driver, and its primary context. The context is retained on first need and given back when
// the last owner of something on the device is gone, because every owner shares its Device.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "driver/driver.hpp"

namespace memlake {

class Library;

class Device {
 public:
  /// Made by Library::device, which keeps one per ordinal.
  Device(Library& library, int ordinal, bool is_host_backed);
  /// With a driver of its own around the library's, for instance one that counts for this device alone.
  Device(Library& library, Driver& driver, int ordinal, bool is_host_backed);
  /// The same device through another driver around its library's: open as long as `same` is.
  Device(std::shared_ptr<const Device> same, Driver& driver);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  Library& library() const noexcept { return library_; }
  Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  /// True for an emulated device whose memory the CPU can touch at its device address.
  bool is_host_backed() const noexcept { return is_host_backed_; }

  /// False once an emulated device was closed: everything that lived on it is gone.
  bool is_open() const noexcept {
    return same_ == nullptr ? is_open_.load(std::memory_order_acquire) : same_->is_open();
  }
  void set_open(bool is_open) noexcept { is_open_.store(is_open, std::memory_order_release); }
  /// False in a forked child of the process that made this object.
  bool is_of_this_process() const noexcept { return is_of_generation(process_generation_); }
  /// Whether what an owner holds on this device still exists, so that undoing it makes sense.
  bool can_undo() const noexcept { return is_open() && is_of_this_process(); }

  /// The primary context, retained. Virtual memory calls need it retained, but not current.
  CUcontext context();

  std::string name() const;
  std::array<std::uint8_t, 16> uuid() const;
  Bytes total_memory() const;
  Bytes free_memory();
  /// Asked once, then remembered.
  Bytes granularity(CUmemAllocationGranularity_flags option) const;
  int attribute(int attribute) const;
  /// False between devices of different drivers.
  bool can_access(const Device& peer) const;
  void synchronize();

  /// What memory made on this device looks like to cuMemCreate; every byte that is not set is 0.
  CUmemAllocationProp allocation_prop(bool is_exportable) const noexcept;
  /// Where memory of the host lies that this device can map: anywhere, or on the NUMA node that is nearest to it.
  /// Error(config) if the driver cannot map such memory here.
  CUmemLocation host_location(bool is_numa) const;
  /// Of memory at a location of the host.
  Bytes host_granularity(CUmemLocation location) const;

 private:
  Library& library_;
  Driver& driver_;
  const int ordinal_;
  const bool is_host_backed_;
  const unsigned process_generation_;
  const std::shared_ptr<const Device> same_;  ///< null, or what this is another way to
  std::atomic<bool> is_open_{true};
  std::mutex mutex_;                                                 ///< held while the context is being retained
  std::atomic<CUcontext> context_{nullptr};                          ///< null until first needed
  mutable std::array<std::atomic<std::uint64_t>, 2> granularity_{};  ///< by option; 0 until asked
};

using Devices = std::vector<std::shared_ptr<Device>>;

/// Of all of them together.
Bytes total_memory(const Devices& devices);
/// One granule for all of them, so that chunks of each can lie side by side.
Bytes common_granularity(const Devices& devices);

/// Makes the device's context current in the calling thread for a scope.
class CurrentContext {
 public:
  explicit CurrentContext(Device& device);
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  Driver& driver_;
};

}  // namespace memlake
