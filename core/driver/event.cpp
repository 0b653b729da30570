#include "driver/event.hpp"

#include <utility>

#include "driver/library.hpp"
#include "driver/result.hpp"

namespace memlake {

EventOwner::EventOwner(std::shared_ptr<Device> device, bool has_timing) : device_(std::move(device)) {
  Driver& driver = device_->driver();
  const CurrentContext current(*device_);
  check(driver, Call::cuEventCreate,
        driver.cuEventCreate(&handle_, has_timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
}

EventOwner::EventOwner(std::shared_ptr<Device> device, CUcontext context)
    : device_(std::move(device)), context_(context) {
  Driver& driver = device_->driver();
  const CurrentContext current(driver, context_ == nullptr ? device_->context() : context_);
  check(driver, Call::cuEventCreate, driver.cuEventCreate(&handle_, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
}

EventOwner::~EventOwner() {
  ownership_.end_quietly([this] { destroy(); });
}

CUevent EventOwner::handle() const {
  ownership_.require("the event");
  return handle_;
}

void EventOwner::close() {
  ownership_.end("the event", [this] { destroy(); });
}

void EventOwner::destroy() {
  if (!device_->can_undo()) return;
  device_->library().order().forget(handle_);
  Driver& driver = device_->driver();
  const CurrentContext current(*device_);
  const CUresult result = driver.cuEventDestroy(handle_);
  if (context_ != nullptr && is_about_lost_handle(result)) return;  // it went with its context
  check(driver, Call::cuEventDestroy, result);
}

void event_record(Device& device, CUevent event, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuEventRecord, driver.cuEventRecord(event, stream));
}

bool event_is_done(Device& device, CUevent event) {
  // CUDA asks for no current context here, unlike for a record or a wait.
  Driver& driver = device.driver();
  const CUresult result = driver.cuEventQuery(event);
  if (result == CUDA_ERROR_NOT_READY || is_about_capture(result)) return false;
  check(driver, Call::cuEventQuery, result);
  return true;
}

void event_synchronize(Device& device, CUevent event) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuEventSynchronize, driver.cuEventSynchronize(event));
}

float event_elapsed_ms(Device& device, CUevent start, CUevent end) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  float milliseconds = 0;
  check(driver, Call::cuEventElapsedTime, driver.cuEventElapsedTime(&milliseconds, start, end));
  return milliseconds;
}

}  // namespace memlake
