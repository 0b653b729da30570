#pragma once

// StreamWaits: the host waits for streams and devices.

#include <functional>

#include "blocks/block.hpp"

namespace memlake {

class StreamWaits {
 public:
  StreamWaits() = default;
  StreamWaits(const StreamWaits&) = delete;
  StreamWaits& operator=(const StreamWaits&) = delete;
  virtual ~StreamWaits() = default;

  /// The host waits until all work of the stream is complete. False if that is not possible now: the stream captures a
  /// graph, or its end is unknown and a capture keeps the host from waiting for the device.
  virtual bool wait_for_stream(StreamId stream) = 0;
  /// The host waits until all work of all devices is complete, then `then` is called; false if a capture forbids that.
  virtual bool wait_for_devices(const std::function<void()>& then) {
    then();
    return true;
  }
  /// To be called before a driver call that waits for a whole device: the host waits for that work here, where the
  /// caller can unlock the pool. Does nothing if no stream is known to have work.
  virtual void prepare_device_wait() {}
};

}  // namespace memlake
