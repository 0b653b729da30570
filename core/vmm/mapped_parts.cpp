#include "vmm/mapped_parts.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "driver/result.hpp"

namespace memlake {
namespace {

/// The handle at the address; empty if none is mapped there.
std::optional<CUmemGenericAllocationHandle> handle_at(Device& device, Address address) {
  Driver& driver = device.driver();
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = driver.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address.value));
  if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED) return std::nullopt;
  check(driver, Call::cuMemRetainAllocationHandle, result);
  // The owner of the memory keeps it; only the value is wanted.
  check(driver, Call::cuMemRelease, driver.cuMemRelease(handle));
  return handle;
}

CUmemAllocationProp prop_of(Device& device, CUmemGenericAllocationHandle handle) {
  CUmemAllocationProp prop;
  std::memset(&prop, 0, sizeof prop);
  check(device.driver(), Call::cuMemGetAllocationPropertiesFromHandle,
        device.driver().cuMemGetAllocationPropertiesFromHandle(&prop, handle));
  return prop;
}

}  // namespace

std::vector<MappedPart> mapped_parts(Device& device, AddressRange range, Bytes granule) {
  std::vector<MappedPart> parts;
  if (range.size.count == 0) return parts;
  for (Address at = range.begin; at < range.end();) {
    const auto handle = handle_at(device, at);
    if (!handle) return {};
    const Address end = std::min(Address{(at.value / granule.count + 1) * granule.count}, range.end());
    if (!parts.empty() && parts.back().handle == *handle) {
      parts.back().size = parts.back().size + (end - at);
    } else {
      parts.push_back({*handle, at - range.begin, end - at, {0}, prop_of(device, *handle)});
    }
    at = end;
  }
  // A mapping begins at the start of its handle, so only the first part may begin inside one.
  Address first{range.begin.value / granule.count * granule.count};
  while (first.value >= granule.count && handle_at(device, {first.value - granule.count}) == parts.front().handle)
    first = {first.value - granule.count};
  parts.front().start = range.begin - first;
  return parts;
}

bool is_one_handle(Device& device, AddressRange range) {
  if (range.size.count == 0) return true;
  return handle_at(device, range.begin) == handle_at(device, {range.end().value - 1});
}

}  // namespace memlake
