#include "driver/relaxed_capture.hpp"

namespace memlake {
namespace {

thread_local bool is_relaxed = false;

}  // namespace

RelaxedCapture::RelaxedCapture(Driver* driver) noexcept {
  bool& relaxed = is_relaxed;  // once: in a shared library each access to a thread's variable is a function call
  if (driver == nullptr || relaxed) return;
  // After the call mode_ is the thread's earlier mode. A driver that refuses leaves the thread in its mode, and the
  // calls in the scope say why they fail.
  if (driver->cuThreadExchangeStreamCaptureMode(&mode_) != CUDA_SUCCESS) return;
  driver_ = driver;
  relaxed = true;
}

RelaxedCapture::~RelaxedCapture() {
  if (driver_ == nullptr) return;
  is_relaxed = false;
  static_cast<void>(driver_->cuThreadExchangeStreamCaptureMode(&mode_));
}

}  // namespace memlake
