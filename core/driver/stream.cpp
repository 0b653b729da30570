#include "driver/stream.hpp"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"

namespace memlake {

StreamOwner::StreamOwner(std::shared_ptr<Device> device, bool is_nonblocking, int priority)
    : device_(std::move(device)) {
  Driver& driver = device_->driver();
  const unsigned flags = is_nonblocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  const CurrentContext current(*device_);
  if (priority == 0) {
    check(driver, Call::cuStreamCreate, driver.cuStreamCreate(&handle_, flags));
  } else {
    check(driver, Call::cuStreamCreateWithPriority, driver.cuStreamCreateWithPriority(&handle_, flags, priority));
  }
  // Another library's stream may have had the handle before.
  device_->library().order().forget({device_->ordinal(), handle_});
}

StreamOwner::~StreamOwner() {
  ownership_.end_quietly([this] { destroy(); });
}

CUstream StreamOwner::handle() const {
  ownership_.require("the stream");
  return handle_;
}

void StreamOwner::close() {
  ownership_.end("the stream", [this] { destroy(); });
}

void StreamOwner::destroy() {
  const std::unique_lock lock(end_->mutex);
  if (!device_->can_undo()) {
    end_->is_over = true;
    return;
  }
  device_->library().order().forget({device_->ordinal(), handle_});
  if (end_.use_count() > 1) {
    try {
      auto event = std::make_shared<EventOwner>(device_, nullptr);
      event_record(*device_, event->handle(), handle_);
      end_->event = std::move(event);
    } catch (const Error&) {
      // A pool that asks for the end of this stream then waits for the device.
    }
  }
  Driver& driver = device_->driver();
  const CurrentContext current(*device_);
  check(driver, Call::cuStreamDestroy, driver.cuStreamDestroy(handle_));
  end_->is_over = true;
}

StreamState stream_state(Device& device, CUstream stream) {
  if (!is_created(stream) && stream != kPerThreadStream) return StreamState::usual;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Driver& driver = device.driver();
  std::optional<CurrentContext> current;
  if (!is_created(stream)) current.emplace(device);  // a stream that was created has its own
  const CUresult result = driver.cuStreamIsCapturing(stream, &status);
  if (result == CUDA_ERROR_INVALID_HANDLE) return StreamState::unknown;
  if (is_about_capture(result)) return StreamState::capturing;
  check(driver, Call::cuStreamIsCapturing, result);
  return status == CU_STREAM_CAPTURE_STATUS_NONE ? StreamState::usual : StreamState::capturing;
}

namespace {

[[noreturn]] void refuse_unknown(CUstream stream) {
  throw Error(ErrorKind::config, "the driver knows no stream with the handle " +
                                     std::to_string(reinterpret_cast<std::uintptr_t>(stream)) +
                                     "; it was destroyed, or never was one");
}

}  // namespace

StreamHome stream_home(Driver& driver, CUstream stream) {
  StreamHome home;
  CUresult result = driver.cuStreamGetCtx(stream, &home.context);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return {};
  if (result == CUDA_ERROR_INVALID_HANDLE) refuse_unknown(stream);
  check(driver, Call::cuStreamGetCtx, result);
  const CurrentContext current(driver, home.context);
  result = driver.cuCtxGetDevice(&home.device);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return {};
  check(driver, Call::cuCtxGetDevice, result);
  return home;
}

std::uint64_t stream_identity(Device& device, CUstream stream) {
  Driver& driver = device.driver();
  unsigned long long id = 0;
  const CUresult result = driver.cuStreamGetId(stream, &id);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return 0;
  if (result == CUDA_ERROR_INVALID_HANDLE) refuse_unknown(stream);
  check(driver, Call::cuStreamGetId, result);
  return id;
}

bool stream_is_capturing(Device& device, CUstream stream) {
  const StreamState state = stream_state(device, stream);
  if (state == StreamState::unknown) refuse_unknown(stream);
  return state == StreamState::capturing;
}

bool stream_is_done(Device& device, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  const CUresult result = driver.cuStreamQuery(stream);
  if (result == CUDA_ERROR_NOT_READY || is_about_capture(result)) return false;
  check(driver, Call::cuStreamQuery, result);
  return true;
}

void stream_synchronize(Device& device, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuStreamSynchronize, driver.cuStreamSynchronize(stream));
}

void stream_wait(Device& device, CUstream stream, CUevent event) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuStreamWaitEvent, driver.cuStreamWaitEvent(stream, event, 0));
}

}  // namespace memlake
