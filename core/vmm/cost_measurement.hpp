#pragma once

// Measures what driver calls cost on a device: the figures of CostModel, and the speed of copies on memory that is one
// handle or is stitched of many. The calls bypass the counters and injected faults of the driver layer.

#include <memory>

#include "driver/device.hpp"

namespace memlake {

/// Microseconds per call. Set-access and unmap are one call over all handles.
struct CallTimes {
  double reserve = 0;
  double create = 0;  ///< of one handle, like map and release
  double map = 0;
  double set_access = 0;
  double unmap = 0;
  double release = 0;
  double address_free = 0;
};

/// Makes `count` handles of `size` bytes, maps them side by side, and undoes it. Error(out_of_memory) if there is no
/// memory for them.
CallTimes measure_calls(const std::shared_ptr<Device>& device, Bytes size, std::size_t count);

/// cuMemAlloc and cuMemFree, in microseconds.
struct PlainTimes {
  double alloc = 0;
  double free = 0;
};
PlainTimes measure_plain(const std::shared_ptr<Device>& device, Bytes size);

/// The bytes per second of copies between two ranges of the device, each of `total` bytes. The
/// ranges are stitched of handles of `handle` bytes; 0: plain allocations.
double measure_copy(const std::shared_ptr<Device>& device, Bytes total, Bytes handle, int repeats);

}  // namespace memlake
