#pragma once

// Access: which devices may read or write a mapped range. At first no device has access, not even the chunk's own.

#include <memory>
#include <span>

#include "base/address.hpp"
#include "driver/device.hpp"

namespace memlake {

/// One cuMemSetAccess for all devices; `range` covers whole mappings. After an error the rights are unknown until the
/// range is unmapped or they are set again (A7.12).
void set_access(Driver& driver, AddressRange range, std::span<const std::shared_ptr<Device>> devices,
                CUmemAccess_flags flags);

/// Sets the rights of the CPU. pre: all memory of the range lies at this location of the host.
void set_host_access(Driver& driver, AddressRange range, CUmemLocation location, CUmemAccess_flags flags);

/// The rights of the device at a mapped address.
CUmemAccess_flags get_access(const Device& device, Address address);

}  // namespace memlake
