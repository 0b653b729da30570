#pragma once

// Streams: an owner for those memlake makes, and questions about any stream, which may be somebody else's.

#include <memory>

#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

/// Owns a stream; its undo is cuStreamDestroy. Queued work still runs after that.
class StreamOwner {
 public:
  /// Priority 0 is the default; lower numbers are more urgent.
  StreamOwner(std::shared_ptr<Device> device, bool is_nonblocking, int priority);
  StreamOwner(StreamOwner&&) noexcept = default;
  StreamOwner& operator=(StreamOwner&&) = delete;
  ~StreamOwner();

  /// Throws Error(closed) after close().
  CUstream handle() const;
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  void close();

 private:
  void destroy();

  std::shared_ptr<Device> device_;
  CUstream handle_ = nullptr;
  Ownership ownership_;
};

bool stream_is_done(Device& device, CUstream stream);
void stream_synchronize(Device& device, CUstream stream);
/// Later work of `stream` waits on the device for the event's latest recording.
void stream_wait(Device& device, CUstream stream, CUevent event);

}  // namespace memlake
