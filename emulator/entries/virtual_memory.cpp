// Virtual memory management: section A of the contract. The functions here check the arguments; chunk.cpp and
// mapping.cpp have the rules.

#include <climits>
#include <cstring>
#include <span>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kHostGranularity = std::uint64_t{2} << 20;

/// Why a property struct is nonsense; "" if it is not. The driver does not check it in a granularity query (A2.4).
std::string why_doubtful(Driver& driver, const CUmemAllocationProp& prop) {
  if (prop.type != CU_MEM_ALLOCATION_TYPE_PINNED) return text("its allocation type ", +prop.type, " is invalid");
  switch (prop.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (driver.devices.find_open(prop.location.id) == nullptr)
        return text("its device ", prop.location.id, " does not exist");
      return "";
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return "";
    default:
      return text("its location type ", +prop.location.type, " is invalid");
  }
}

/// In the relaxed mode work that runs now still ends before its memory goes: the emulator must not crash.
void let_running_work_end(Session& session, CUdeviceptr address, size_t size) {
  Driver& driver = session.driver;
  driver.changed.wait(session.lock, [&] { return !driver.mappings.is_relaxed_and_running(address, size); });
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                                      CUmemAllocationGranularity_flags option) {
  return enter(Call::cuMemGetAllocationGranularity, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    required(granularity, "granularity");
    if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
      invalid("option ", +option, " is neither MINIMUM (0) nor RECOMMENDED (1)");
    if (prop == nullptr) violate("prop is NULL: the real driver crashes here");
    const std::string doubt = why_doubtful(driver, *prop);
    if (!doubt.empty() && driver.devices.is_strict())
      driver.ledger.note_warning(session.origin, text("the property struct is not valid, which this query does not "
                                                      "check: ",
                                                      doubt));
    *granularity = kHostGranularity;
    const bool is_on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const Device* device = is_on_device ? driver.devices.find_open(prop->location.id) : nullptr;
    driver.chunks.check_virtual_memory(device);
    if (device != nullptr)
      *granularity =
          option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ? device->config.granularity : device->config.recommended;
  });
}

MEMLAKE_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint,
                                            unsigned long long flags) {
  return enter(Call::cuMemAddressReserve, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    session.driver.chunks.check_virtual_memory(nullptr);
    *address = session.driver.mappings.reserve(size, alignment, hint, flags, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return enter(Call::cuMemAddressFree, MEMLAKE_CALLER, [&](Session& session) {
    let_running_work_end(session, address, size);
    session.driver.mappings.free(address, size);
  });
}

MEMLAKE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                                    unsigned long long flags) {
  return enter(Call::cuMemCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "handle");
    *handle =
        session.driver.chunks.create(size, required(prop, "prop"), flags, session.driver.version(), session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter(Call::cuMemRelease, MEMLAKE_CALLER, [&](Session& session) { session.driver.chunks.release(handle); });
}

MEMLAKE_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return enter(Call::cuMemRetainAllocationHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "handle");
    const Mapping* mapping = session.driver.mappings.find(reinterpret_cast<std::uint64_t>(address));
    if (mapping == nullptr) invalid("nothing is mapped at ", address);
    session.driver.chunks.retain(*mapping->handle);
    *handle = mapping->handle->value;
  });
}

MEMLAKE_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                                 unsigned long long flags) {
  return enter(Call::cuMemMap, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.mappings.map(address, size, offset, handle, flags, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return enter(Call::cuMemUnmap, MEMLAKE_CALLER, [&](Session& session) {
    let_running_work_end(session, address, size);
    session.driver.mappings.unmap(address, size);
  });
}

MEMLAKE_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* descriptors,
                                       size_t count) {
  return enter(Call::cuMemSetAccess, MEMLAKE_CALLER, [&](Session& session) {
    required(descriptors, "desc");
    if (count == 0) invalid("count is 0");
    const auto most = static_cast<size_t>(session.driver.devices.count()) + 2;  // every device, HOST and HOST_NUMA
    if (count > most) invalid("count ", count, " is more than one descriptor for each place there is");
    let_running_work_end(session, address, size);
    session.driver.mappings.set_access(address, size, std::span(descriptors, count));
  });
}

MEMLAKE_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return enter(Call::cuMemGetAccess, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    *flags = session.driver.mappings.access(required(location, "location"), address);
  });
}

MEMLAKE_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                               CUmemGenericAllocationHandle handle) {
  return enter(Call::cuMemGetAllocationPropertiesFromHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(prop, "prop");
    *prop = session.driver.chunks.find(handle).chunk->prop;
  });
}

MEMLAKE_EXPORT CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                                     CUmemAllocationHandleType type, unsigned long long flags) {
  return enter(Call::cuMemExportToShareableHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(static_cast<int*>(shareable), "shareableHandle");
    if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
      const auto name = session.driver.chunks.export_fabric(session.driver.chunks.find(handle), flags);
      std::memcpy(shareable, name.data(), name.size());
      return;
    }
    *static_cast<int*>(shareable) = session.driver.chunks.export_file(session.driver.chunks.find(handle), type, flags);
  });
}

MEMLAKE_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                       CUmemAllocationHandleType type) {
  return enter(Call::cuMemImportFromShareableHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "handle");
    // The descriptor travels by value in the pointer (A8).
    const auto fd = reinterpret_cast<std::intptr_t>(shareable);
    if (fd < INT_MIN || fd > INT_MAX)
      invalid(shareable, " is no file descriptor; pass it by value, not by its address");
    *handle = session.driver.chunks.import_file(static_cast<int>(fd), type, session.origin);
  });
}

}  // namespace memlake::emulator
