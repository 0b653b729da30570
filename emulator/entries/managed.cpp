// Managed memory: allocation, attachment, prefetches, advice, and the attributes of ranges.

#include <algorithm>
#include <cstring>
#include <vector>

#include "entries/entry.hpp"
#include "entries/managed_ranges.hpp"

namespace memlake::emulator {

namespace {

/// The value of an attribute in a buffer of `size` bytes. Throws Refusal for a wrong size.
std::vector<int> value_of(const ManagedPages::Advice& advice, CUmem_range_attribute attribute, size_t size) {
  const auto one = [&](int value) {
    if (size != sizeof value) invalid("range attribute ", +attribute, " has 4 bytes, dataSize is ", size);
    return std::vector{value};
  };
  const auto ordinal = [](const PageHome& home) {
    return home.is_none() ? CU_DEVICE_INVALID : home.is_device() ? home.id : CU_DEVICE_CPU;
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return one(advice.is_read_mostly ? 1 : 0);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return one(ordinal(advice.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return one(ordinal(advice.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return one(advice.preferred.type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return one(advice.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return one(advice.prefetched.type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return one(advice.prefetched.id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      if (size == 0 || size % sizeof(int) != 0)
        invalid("the list of ACCESSED_BY has a multiple of 4 bytes, dataSize is ", size);
      std::vector<int> list(size / sizeof(int), CU_DEVICE_INVALID);
      const std::size_t count = std::min(list.size(), advice.accessed_by.size());
      std::copy_n(advice.accessed_by.begin(), count, list.begin());
      return list;
    }
  }
  invalid("range attribute ", +attribute, " is unknown");
}

void advise(Session& session, CUdeviceptr address, size_t count, CUmem_advise advice, const CUmemLocation& location) {
  Driver& driver = session.driver;
  check_managed(driver, address, count);
  const PageHome home = checked_home(driver, location);  // also where the advice ignores it: NVIDIA's driver checks it
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return driver.managed.set_read_mostly(address, count, advice == CU_MEM_ADVISE_SET_READ_MOSTLY);
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      return driver.managed.set_preferred(address, count, home);
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return driver.managed.set_preferred(address, count, {});
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      if (location.type != CU_MEM_LOCATION_TYPE_DEVICE && location.type != CU_MEM_LOCATION_TYPE_HOST)
        invalid("ACCESSED_BY is for a device or HOST, not for location type ", +location.type);
      return driver.managed.set_accessed_by(address, count, home.is_device() ? home.id : kHost,
                                            advice == CU_MEM_ADVISE_SET_ACCESSED_BY);
  }
  invalid("advice ", +advice, " is unknown");
}

void prefetch(Session& session, CUdeviceptr address, size_t count, const CUmemLocation& location, CUstream handle) {
  Driver& driver = session.driver;
  Stream& stream = driver.streams.find(handle);
  check_managed(driver, address, count);
  const PageHome home = checked_home(driver, location);
  enqueue_on_ranges(session, stream, {{address, count, false}});
  driver.managed.prefetch(address, count, home);
}

/// The location that a device's ordinal names in the first versions of the functions.
CUmemLocation legacy_location(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  return enter(Call::cuMemAllocManaged, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
      invalid("flags ", flags, " are not ATTACH_GLOBAL (1) or ATTACH_HOST (2)");
    *address = session.driver.plain.allocate_managed(session.driver.contexts.current(), bytes, session.origin);
  });
}

// All devices have concurrent managed access, and then an attachment changes nothing (CUDA's description of the flags).
MEMLAKE_EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t length, unsigned flags) {
  return enter(Call::cuStreamAttachMemAsync, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    Stream& stream = driver.streams.find(handle);
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
      invalid("flags ", flags, " are not ATTACH_GLOBAL (1), ATTACH_HOST (2) or ATTACH_SINGLE (4)");
    const Allocation* found = driver.plain.find(address);
    if (found == nullptr || !found->is_managed || found->address != address)
      invalid("no allocation of cuMemAllocManaged starts at ", Hex{address});
    if (length != 0 && length != found->size)
      invalid("length ", length, " is neither 0 nor the ", found->size, " bytes of the allocation");
    if (flags == CU_MEM_ATTACH_SINGLE && stream.kind == Stream::Kind::legacy)
      invalid("memory cannot be attached to the NULL stream alone, because that is no single stream");
    enqueue_on_ranges(session, stream, {{address, found->size, false}});
  });
}

MEMLAKE_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUdevice device, CUstream stream) {
  return enter(Call::cuMemPrefetchAsync, MEMLAKE_CALLER,
               [&](Session& session) { prefetch(session, address, count, legacy_location(device), stream); });
}

MEMLAKE_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t count, CUmemLocation location, unsigned flags,
                                              CUstream stream) {
  return enter(Call::cuMemPrefetchAsync_v2, MEMLAKE_CALLER, [&](Session& session) {
    if (flags != 0) invalid("flags must be 0");
    prefetch(session, address, count, location, stream);
  });
}

MEMLAKE_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice, CUdevice device) {
  return enter(Call::cuMemAdvise, MEMLAKE_CALLER,
               [&](Session& session) { advise(session, address, count, advice, legacy_location(device)); });
}

MEMLAKE_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location) {
  return enter(Call::cuMemAdvise_v2, MEMLAKE_CALLER,
               [&](Session& session) { advise(session, address, count, advice, location); });
}

MEMLAKE_EXPORT CUresult cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute,
                                               CUdeviceptr address, size_t count) {
  return enter(Call::cuMemRangeGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(static_cast<char*>(data), "data");
    check_managed(session.driver, address, count);
    const std::vector<int> value = value_of(session.driver.managed.common(address, count), attribute, size);
    std::memcpy(data, value.data(), size);
  });
}

MEMLAKE_EXPORT CUresult cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* attributes,
                                                size_t number, CUdeviceptr address, size_t count) {
  return enter(Call::cuMemRangeGetAttributes, MEMLAKE_CALLER, [&](Session& session) {
    required(data, "data");
    required(sizes, "dataSizes");
    required(attributes, "attributes");
    if (number == 0) invalid("numAttributes is 0");
    check_managed(session.driver, address, count);
    const ManagedPages::Advice advice = session.driver.managed.common(address, count);
    std::vector<std::vector<int>> values;
    for (size_t i = 0; i < number; ++i) {
      required(static_cast<char*>(data[i]), "an entry of data");
      values.push_back(value_of(advice, attributes[i], sizes[i]));
    }
    for (size_t i = 0; i < number; ++i) std::memcpy(data[i], values[i].data(), sizes[i]);
  });
}

}  // namespace memlake::emulator
