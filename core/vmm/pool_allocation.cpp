#include "vmm/pool_allocation.hpp"

#include "driver/result.hpp"

namespace memlake {

PoolAllocation::PoolAllocation(const MemoryPool& pool, Bytes size, CUstream stream) : device_(pool.device()) {
  const CurrentContext current(*device_);  // the default stream is the current context's
  Driver& driver = device_->driver();
  CUdeviceptr address = 0;
  check(driver, Call::cuMemAllocFromPoolAsync,
        driver.cuMemAllocFromPoolAsync(&address, size.count, pool.handle(), stream));
  range_ = {{address}, size};
}

PoolAllocation::~PoolAllocation() {
  ownership_.end_quietly([this] { free(); });
}

void PoolAllocation::free() {
  if (!device_->can_undo()) return;
  const CurrentContext current(*device_);
  Driver& driver = device_->driver();
  check(driver, Call::cuMemFree, driver.cuMemFree(range_.begin.value));
}

void PoolAllocation::close(CUstream stream) {
  ownership_.end("the memory of the driver's pool", [&] {
    if (!device_->can_undo()) return;
    const CurrentContext current(*device_);
    Driver& driver = device_->driver();
    check(driver, Call::cuMemFreeAsync, driver.cuMemFreeAsync(range_.begin.value, stream));
  });
}

}  // namespace memlake
