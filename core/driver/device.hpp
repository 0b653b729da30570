#pragma once

// Device: one device of a driver, and its primary context. The context is retained on first use and released after the
// last owner of an object on the device, because every owner shares its Device.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/leftovers.hpp"
#include "base/process.hpp"
#include "driver/aliasing.hpp"
#include "driver/driver.hpp"
#include "driver/features.hpp"

namespace memlake {

class Library;

/// What memlake knows about a device without asking the driver.
struct DeviceTraits {
  bool is_host_backed = false;  ///< an emulated device whose memory the CPU can touch at its device address
  /// The level of aliasing, for a device that shall not be asked; empty: vmm/feature_probe.hpp asks.
  std::optional<Aliasing> aliasing{};
  std::shared_ptr<FeatureTable> features{};  ///< null: its own
};

class Device {
 public:
  /// For Library::device, which keeps one Device per ordinal.
  Device(Library& library, int ordinal, DeviceTraits traits);
  /// Uses `driver`, which wraps the library's driver, for instance to count the calls of this device alone.
  Device(Library& library, Driver& driver, int ordinal, DeviceTraits traits);
  /// The device `same` through `driver`, which wraps its library's driver. It is open as long as `same` is.
  Device(std::shared_ptr<const Device> same, Driver& driver);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  Library& library() const noexcept { return library_; }
  Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  /// True for an emulated device whose memory the CPU can touch at its device address.
  bool is_host_backed() const noexcept { return traits_.is_host_backed; }
  /// Empty if the device can be asked (vmm/feature_probe.hpp).
  std::optional<Aliasing> known_aliasing() const noexcept { return traits_.aliasing; }
  /// The features that were asked for so far. All objects of one device share them.
  FeatureTable& features() const noexcept { return *features_; }

  /// False after an emulated device was closed: all objects on it are gone.
  bool is_open() const noexcept {
    return same_ == nullptr ? is_open_.load(std::memory_order_acquire) : same_->is_open();
  }
  void set_open(bool is_open) noexcept { is_open_.store(is_open, std::memory_order_release); }
  /// False in a forked child of the process that made this object.
  bool is_of_this_process() const noexcept { return is_of_generation(process_generation_); }
  /// Whether objects on this device still exist, so that their owners must make the undo call.
  bool can_undo() const noexcept { return is_open() && is_of_this_process(); }

  /// Where owners go whose undo call failed, to be closed later; null: they are forgotten. pre: no owner uses the
  /// device yet.
  void keep_leftovers(std::shared_ptr<Leftovers> leftovers) noexcept { leftovers_ = std::move(leftovers); }
  /// Moves an owner there.
  template <class Owner>
  void keep(Owner&& owner) {
    // By a copy: the owner may have the last reference to this device.
    if (const std::shared_ptr<Leftovers> leftovers = leftovers_) leftovers->keep(std::forward<Owner>(owner));
  }
  /// Tries again to undo what was kept.
  void retry_leftovers() const {
    if (const std::shared_ptr<Leftovers> leftovers = leftovers_; leftovers != nullptr && leftovers->has_any())
      leftovers->retry();
  }

  /// The primary context, retained. Virtual memory calls need it retained, but not current.
  CUcontext context();

  std::string name() const;
  std::array<std::uint8_t, 16> uuid() const;
  Bytes total_memory() const;
  Bytes free_memory();
  /// The driver is asked once per option; then the answer is cached.
  Bytes granularity(CUmemAllocationGranularity_flags option) const;
  int attribute(int attribute) const;
  /// False between devices of different driver libraries.
  bool can_access(const Device& peer) const;
  void synchronize();

  /// The properties for cuMemCreate on this device. All other bytes, padding included, are 0. The flag of GPUDirect
  /// RDMA is set if the device was asked for it and grants it.
  CUmemAllocationProp allocation_prop(bool is_exportable) const noexcept;
  /// The granularity of memory at a location of the host.
  Bytes host_granularity(CUmemLocation location) const;

 private:
  Library& library_;
  Driver& driver_;
  const int ordinal_;
  const DeviceTraits traits_;
  const unsigned process_generation_;
  const std::shared_ptr<FeatureTable> features_;
  const std::shared_ptr<const Device> same_;  ///< the device that was passed to the constructor, or null
  std::shared_ptr<Leftovers> leftovers_;
  std::atomic<bool> is_open_{true};
  std::mutex mutex_;                                                 ///< held while the context is being retained
  std::atomic<CUcontext> context_{nullptr};                          ///< null until first needed
  mutable std::array<std::atomic<std::uint64_t>, 2> granularity_{};  ///< by option; 0 until asked
};

using Devices = std::vector<std::shared_ptr<Device>>;

/// The sum over all devices.
Bytes total_memory(const Devices& devices);
/// The least common multiple of their granules, so that chunks of all devices can be mapped side by side.
Bytes common_granularity(const Devices& devices);

/// Makes a context current in the calling thread for a scope.
class CurrentContext {
 public:
  /// The primary context of the device.
  explicit CurrentContext(Device& device);
  CurrentContext(Driver& driver, CUcontext context);
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  Driver& driver_;
};

}  // namespace memlake
