#include "vmm/access.hpp"

#include <vector>

#include "driver/result.hpp"

namespace memlake {

void set_access(Driver& driver, AddressRange range, std::span<const std::shared_ptr<Device>> devices,
                CUmemAccess_flags flags) {
  std::vector<CUmemAccessDesc> descriptors;
  descriptors.reserve(devices.size());
  for (const auto& device : devices) {
    if (&device->driver() != &driver) {
      throw Error(ErrorKind::invalid_argument, "a device of another driver cannot have access to this memory");
    }
    device->context();
    descriptors.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal()}, flags});
  }
  check(driver, Call::cuMemSetAccess,
        driver.cuMemSetAccess(range.begin.value, range.size.count, descriptors.data(), descriptors.size()));
}

void set_host_access(Driver& driver, AddressRange range, CUmemLocation location, CUmemAccess_flags flags) {
  const CUmemAccessDesc descriptor{location, flags};
  check(driver, Call::cuMemSetAccess, driver.cuMemSetAccess(range.begin.value, range.size.count, &descriptor, 1));
}

CUmemAccess_flags get_access(const Device& device, Address address) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal()};
  unsigned long long flags = 0;
  check(device.driver(), Call::cuMemGetAccess, device.driver().cuMemGetAccess(&flags, &location, address.value));
  return static_cast<CUmemAccess_flags>(flags);
}

}  // namespace memlake
