// Plain device memory and pinned host memory.

#include "basics/rounding.hpp"
#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kPitchStep = 512;  // TEXTURE_ALIGNMENT of the device attributes

void reclaim(Session& session) {
  session.driver.chunks.reclaim();
  session.driver.plain.reclaim();
  session.driver.pools.reclaim();
}

const HostAllocation& find_host(Session& session, const void* pointer) {
  const HostAllocation* found = session.driver.plain.find_host(reinterpret_cast<std::uint64_t>(pointer));
  if (found == nullptr) invalid(pointer, " is not memory of cuMemHostAlloc or cuMemHostRegister");
  return *found;
}

/// Host memory must not go while queued work uses it; like cuMemFree, freeing waits, and answers what failed meanwhile.
void wait_for_users(Session& session, const void* pointer) {
  Driver& driver = session.driver;
  const HostAllocation* host = driver.plain.find_host(reinterpret_cast<std::uint64_t>(pointer));
  if (host == nullptr) return;
  const std::uint64_t address = host->address;
  const std::uint64_t size = host->size;
  const std::uint64_t context = host->context;
  while (const Work* user = driver.in_flight.user_of(address, size))
    driver.streams.wait(session.lock, CompletionRef(user->completion));
  driver.contexts.check_alive(context);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return enter(Call::cuMemGetInfo_v2, MEMLAKE_CALLER, [&](Session& session) {
    const Device& device = *session.driver.contexts.current().device;
    required(free, "free");
    required(total, "total");
    reclaim(session);
    *free = device.empty();
    *total = device.config.memory;
  });
}

MEMLAKE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return enter(Call::cuMemAlloc_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    Context& context = session.driver.contexts.current();
    reclaim(session);
    *address = session.driver.plain.allocate(context, bytes, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                           unsigned element) {
  return enter(Call::cuMemAllocPitch_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    required(pitch, "the pitch pointer");
    Context& context = session.driver.contexts.current();
    if (element != 4 && element != 8 && element != 16) invalid("ElementSizeBytes ", element, " is not 4, 8 or 16");
    if (width == 0 || height == 0) invalid("there is no row or no column");
    std::uint64_t bytes = 0;
    const std::uint64_t row = round_up(width, kPitchStep);
    if (row < width || __builtin_mul_overflow(row, height, &bytes))
      refuse(CUDA_ERROR_OUT_OF_MEMORY, height, " rows of ", width, " bytes are more than there are addresses");
    reclaim(session);
    *address = session.driver.plain.allocate(context, bytes, session.origin);
    *pitch = row;
  });
}

MEMLAKE_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  return enter(Call::cuMemFree_v2, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    driver.contexts.current();
    if (address == 0) return;
    if (const PoolAllocation* pooled = driver.pools.allocations().find(address);
        pooled != nullptr && pooled->address == address)
      return driver.pools.free_now(*pooled);
    const Allocation* allocation = driver.plain.find(address);
    if (allocation == nullptr || allocation->address != address) invalid("no allocation starts at ", Hex{address});
    if (allocation->is_variable) invalid(Hex{address}, " is a variable of a module, which only its module frees");
    if (allocation->imported != nullptr)
      invalid("the memory at ", Hex{address}, " is another process's; close it with cuIpcCloseMemHandle");
    check_not_open_elsewhere(driver, *allocation);
    // Unlike an unmap, it waits: for its own device, and for whoever else uses this memory.
    const std::uint64_t size = allocation->size;
    driver.streams.synchronize_device(session.lock, *allocation->device);
    while (const Work* user = driver.in_flight.user_of(address, size))
      driver.streams.wait(session.lock, CompletionRef(user->completion));
    driver.contexts.current();  // what failed meanwhile is the answer
    driver.plain.free(address);
  });
}

MEMLAKE_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return enter(Call::cuMemGetAddressRange_v2, MEMLAKE_CALLER, [&](Session& session) {
    const auto tell = [&](std::uint64_t start, std::uint64_t length) {
      if (base != nullptr) *base = start;
      if (size != nullptr) *size = length;
    };
    if (const Mapping* mapping = session.driver.mappings.find(address)) return tell(mapping->address, mapping->size);
    if (const Allocation* found = session.driver.plain.find(address)) return tell(found->address, found->size);
    if (const PoolAllocation* pooled = session.driver.pools.allocations().find(address))
      return tell(pooled->address, pooled->size);
    if (const HostAllocation* host = session.driver.plain.find_host(address)) return tell(host->address, host->size);
    invalid("nothing is allocated or mapped at ", Hex{address});
  });
}

MEMLAKE_EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return enter(Call::cuMemAllocHost_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(pointer, "the pointer");
    *pointer = session.driver.plain.allocate_host(session.driver.contexts.current(), bytes, 0, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return enter(Call::cuMemHostAlloc, MEMLAKE_CALLER, [&](Session& session) {
    required(pointer, "the pointer");
    *pointer = session.driver.plain.allocate_host(session.driver.contexts.current(), bytes, flags, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemFreeHost(void* pointer) {
  return enter(Call::cuMemFreeHost, MEMLAKE_CALLER, [&](Session& session) {
    wait_for_users(session, pointer);
    session.driver.plain.free_host(pointer);
  });
}

MEMLAKE_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned flags) {
  return enter(Call::cuMemHostGetDevicePointer_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    if (flags != 0) invalid("flags must be 0");
    find_host(session, pointer);
    *address = reinterpret_cast<CUdeviceptr>(pointer);  // addresses are unified
  });
}

MEMLAKE_EXPORT CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return enter(Call::cuMemHostGetFlags, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    *flags = find_host(session, pointer).flags;
  });
}

MEMLAKE_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  return enter(Call::cuMemHostRegister_v2, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.plain.register_host(session.driver.contexts.current(), pointer, bytes, flags, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  return enter(Call::cuMemHostUnregister, MEMLAKE_CALLER, [&](Session& session) {
    wait_for_users(session, pointer);
    session.driver.plain.unregister_host(pointer);
  });
}

}  // namespace memlake::emulator
