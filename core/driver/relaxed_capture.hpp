#pragma once

// RelaxedCapture: a scope in which this thread's driver calls and the captures of other threads do not disturb each
// other. While a thread captures a graph in CUDA's global mode, the driver refuses many calls of other threads, and a
// refused call ends the capture. A thread in relaxed mode is exempt.

#include "driver/driver.hpp"

namespace memlake {

class RelaxedCapture {
 public:
  /// Null: nothing is done. A scope inside another scope of the thread does nothing, either.
  explicit RelaxedCapture(Driver* driver) noexcept;
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  Driver* driver_ = nullptr;  // null: there is nothing to undo
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace memlake
