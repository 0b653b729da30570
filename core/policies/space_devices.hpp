#pragma once

// SpaceDevices: the devices that the memory of a space lies on, and those that may reach it.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/address.hpp"
#include "driver/device.hpp"
#include "supply/placement.hpp"

namespace memlake {

class SpaceDevices {
 public:
  /// `total`: the memory of all devices.
  SpaceDevices(Devices devices, Bytes total)
      : total_(total), accessors_(std::move(devices)), own_count_(accessors_.size()) {}

  /// The number of devices that the memory lies on.
  [[nodiscard]] std::size_t count() const { return own_count_; }
  [[nodiscard]] Bytes total() const { return total_; }
  [[nodiscard]] Location location() const { return location_; }
  void set_location(Location location) { location_ = location; }
  /// The memory that is free on the devices, or on the host, for any program.
  [[nodiscard]] Bytes free_outside() const;

  /// The devices that may read and write the memory: its own, then its peers.
  [[nodiscard]] const Devices& accessors() const {
    // A peer that was closed needs no access, and its driver would refuse to give it.
    const auto peers = accessors_.begin() + static_cast<std::ptrdiff_t>(own_count_);
    accessors_.erase(std::remove_if(peers, accessors_.end(), [](const auto& peer) { return !peer->is_open(); }),
                     accessors_.end());
    return accessors_;
  }
  /// The devices beside its own that may read and write the memory.
  [[nodiscard]] Devices peers() const {
    const auto& all = accessors();
    return {all.begin() + static_cast<std::ptrdiff_t>(own_count_), all.end()};
  }
  /// pre: none of them is one of its own.
  void set_peers(const Devices& peers);
  /// Those of `some` that the memory does not lie on.
  [[nodiscard]] Devices without_own(const Devices& some) const;
  /// Changes the rights of devices on these mappings; all or nothing.
  void change_rights(const std::vector<AddressRange>& mappings, const Devices& added, const Devices& removed) const;

 private:
  const Bytes total_;
  Location location_ = Location::device;
  mutable Devices accessors_;  // its own, then its peers
  std::size_t own_count_;
};

/// Those of `some` that `others` lacks.
[[nodiscard]] Devices without(const Devices& some, const Devices& others);

}  // namespace memlake
