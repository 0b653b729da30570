#pragma once

// CUDA_VISIBLE_DEVICES: which devices a program sees, and in which order.

#include <string_view>
#include <vector>

namespace memlake::emulator {

/// The numbers of the devices that the list selects, out of 0 .. count - 1. The list has numbers and UUIDs
/// ("GPU-1a2b...", of which any beginning that names one device is enough), separated by commas. As in CUDA, the first
/// entry that names no device ends the list, and a device that is named twice hides all devices.
std::vector<int> visible_devices(std::string_view list, int count);

}  // namespace memlake::emulator
