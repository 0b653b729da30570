#pragma once

// The waits that a program asks for: for a stream, an event or a device. If the calling thread can be interrupted
// (InterruptScope), a signal ends the wait with Interrupted. The work that was waited for goes on.

#include <memory>

#include "driver/device.hpp"

namespace memlake {

void wait_for_stream(const std::shared_ptr<Device>& device, CUstream stream);
/// The event must exist until its recording is complete, also if the wait is interrupted.
void wait_for_event(const std::shared_ptr<Device>& device, CUevent event);
void wait_for_device(const std::shared_ptr<Device>& device);

}  // namespace memlake
