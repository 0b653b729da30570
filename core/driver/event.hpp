#pragma once

// Events: an owner for the events that memlake creates, and operations on any event, also of other libraries.

#include <memory>

#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

/// Owns an event; its undo is cuEventDestroy, allowed before the recording is complete.
class EventOwner {
 public:
  /// Timing makes recording slower; only events that measure time need it.
  EventOwner(std::shared_ptr<Device> device, bool has_timing);
  /// For the host to wait for, without timing: a thread that waits sleeps instead of spinning. `context`: in which the
  /// event can be recorded; null: the primary context of the device.
  EventOwner(std::shared_ptr<Device> device, CUcontext context);
  EventOwner(EventOwner&&) noexcept = default;
  EventOwner& operator=(EventOwner&&) = delete;
  ~EventOwner();

  /// Throws Error(closed) after close().
  CUevent handle() const;
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  void close();

 private:
  void destroy();

  std::shared_ptr<Device> device_;
  CUcontext context_ = nullptr;  // of another library, which may destroy it with the event; null: the device's own
  CUevent handle_ = nullptr;
  Ownership ownership_;
};

void event_record(Device& device, CUevent event, CUstream stream);
/// True also for an event that was never recorded. False if the driver does not answer because of a capture.
bool event_is_done(Device& device, CUevent event);
void event_synchronize(Device& device, CUevent event);
float event_elapsed_ms(Device& device, CUevent start, CUevent end);

}  // namespace memlake
