#pragma once

// Transfers: copies and fills, queued on a stream of the device. Host memory must live until they are complete.

#include <cstdint>

#include "base/address.hpp"
#include "driver/device.hpp"

namespace memlake {

void copy(Device& device, Address destination, Address source, Bytes size, CUstream stream);
void copy_from_host(Device& device, Address destination, const void* source, Bytes size, CUstream stream);
void copy_to_host(Device& device, void* destination, Address source, Bytes size, CUstream stream);
void fill(Device& device, Address destination, std::uint8_t value, Bytes size, CUstream stream);

}  // namespace memlake
