#include "vmm/plain_allocation.hpp"

#include <utility>

#include "driver/result.hpp"

namespace memlake {

PlainAllocation::PlainAllocation(std::shared_ptr<Device> device, Bytes size) : device_(std::move(device)) {
  const CurrentContext current(*device_);
  Driver& driver = device_->driver();
  CUdeviceptr address = 0;
  check(driver, Call::cuMemAlloc, driver.cuMemAlloc(&address, size.count));
  range_ = {{address}, size};
}

PlainAllocation::~PlainAllocation() {
  ownership_.end_or_keep([this] { free(); }, [this] { device_->keep(std::move(*this)); });
}

void PlainAllocation::free() {
  if (!device_->can_undo()) return;
  const CurrentContext current(*device_);
  Driver& driver = device_->driver();
  check(driver, Call::cuMemFree, driver.cuMemFree(range_.begin.value));
}

}  // namespace memlake
