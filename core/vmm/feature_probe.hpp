#pragma once

// Asks a device which features it has: by its attributes and, where documents contradict each other or an attribute
// promises too much, by trials with a few granules of memory. The trials use a stream of their own and bypass the
// counters and injected faults of the driver layer.

#include <memory>

#include "driver/aliasing.hpp"
#include "driver/device.hpp"

namespace memlake {

/// The answer; the device is asked at the first call. Error(config) if MEMLAKE_FEATURES has a bad entry.
FeatureAnswer ask_feature(const std::shared_ptr<Device>& device, Feature feature);
/// False if the device lacks it, or could not be asked.
bool has_feature(const std::shared_ptr<Device>& device, Feature feature);

/// The highest level of aliasing that the device has shown to work.
Aliasing proven_aliasing(const std::shared_ptr<Device>& device);

/// Whether a driver that may lack second mappings has refused a mapping as such.
bool refuses_mapping(const Error& error);

/// Error(config) if a device has no virtual memory management; `what` needs it, and `instead` does not.
void require_virtual_memory(const Devices& devices, const std::string& what, const std::string& instead);

/// The location of host memory that the device can map: anywhere, or on the NUMA node that is nearest to the device.
/// Error(config) if it cannot.
CUmemLocation host_location(const std::shared_ptr<Device>& device, bool is_numa);

}  // namespace memlake
