#include "driver/transfer.hpp"

#include "driver/result.hpp"

namespace memlake {

void copy(Device& device, Address destination, Address source, Bytes size, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuMemcpyDtoDAsync, driver.cuMemcpyDtoDAsync(destination.value, source.value, size.count, stream));
}

void copy_from_host(Device& device, Address destination, const void* source, Bytes size, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuMemcpyHtoDAsync, driver.cuMemcpyHtoDAsync(destination.value, source, size.count, stream));
}

void copy_to_host(Device& device, void* destination, Address source, Bytes size, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuMemcpyDtoHAsync, driver.cuMemcpyDtoHAsync(destination, source.value, size.count, stream));
}

void fill(Device& device, Address destination, std::uint8_t value, Bytes size, CUstream stream) {
  Driver& driver = device.driver();
  const CurrentContext current(device);
  check(driver, Call::cuMemsetD8Async, driver.cuMemsetD8Async(destination.value, value, size.count, stream));
}

}  // namespace memlake
