// Stream-ordered memory pools: section B of the contract.

#include <climits>

#include "entries/entry.hpp"
#include "pools/pool_attributes.hpp"
#include "process/graph_params.hpp"

namespace memlake::emulator {

namespace {

CUmemLocation on_device(Session& session, CUdevice device) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, session.driver.devices.find(device).ordinal};
}

/// The location of the functions of CUDA 13.0, which all refuse a bad one alike.
const CUmemLocation& checked(Session& session, const CUmemLocation* location, CUmemAllocationType type) {
  const CUmemLocation& place = required(location, "location");
  if (place.type == CU_MEM_LOCATION_TYPE_INVALID && type != CU_MEM_ALLOCATION_TYPE_MANAGED)
    invalid("location type NONE is only for managed memory");
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE && session.driver.devices.find_open(place.id) == nullptr)
    invalid("device ", place.id, " does not exist or was closed");
  return place;
}

/// `pool` null: the current one of the stream's device.
void allocate(Session& session, CUdeviceptr* address, size_t bytes, Pool* pool, CUstream stream) {
  Driver& driver = session.driver;
  required(address, "the address pointer");
  Stream& in_order_of = driver.streams.find(stream);
  driver.chunks.reclaim();
  driver.pools.reclaim();
  if (pool == nullptr)
    pool = &driver.pools.current_pool({CU_MEM_LOCATION_TYPE_DEVICE, in_order_of.device->ordinal},
                                      CU_MEM_ALLOCATION_TYPE_PINNED);
  if (driver.captures.is_capturing(in_order_of)) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = pool->props.allocType;
    params.poolProps.location = pool->props.location;
    params.bytesize = bytes;
    check_alloc_allowed(driver.captures.graph_of(in_order_of));
    driver.captures.add(in_order_of, alloc_params(driver, params), session.origin);
    *address = params.dptr;
    return;
  }
  *address = driver.pools.allocate(*pool, bytes, in_order_of, session.origin);
}

/// cuMemFreeAsync of memory that cuMemAlloc made: it goes when the stream comes to it.
void free_plain(Session& session, const Allocation& allocation, Stream& stream) {
  Driver& driver = session.driver;
  if (allocation.imported != nullptr)
    invalid("the memory at ", Hex{allocation.address}, " is another process's; close it with cuIpcCloseMemHandle");
  check_not_open_elsewhere(driver, allocation);
  if (!allocation.device->config.relaxes(Switch::inflight_unmap))
    if (const WorkLabel *user = allocation.uses.find_not([&](std::uint64_t other, std::uint64_t position) {
          return driver.streams.comes_before(stream, other, position);
        }))
      violate("the memory at ", Hex{allocation.address}, " is freed in a stream that does not wait for ",
              user->describe(), ", which uses it; record an event behind that work and wait for it here");
  const std::uint64_t address = allocation.address;
  const std::uint64_t id = allocation.id;
  const CompletionRef completion = driver.streams.when_reached(
      stream, session.origin, [&driver, address, id] { driver.plain.finish_leaving(address, id); });
  driver.plain.begin_leaving(address);
  if (completion->is_done) driver.plain.finish_leaving(address, id);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return enter(Call::cuDeviceGetDefaultMemPool, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool");
    *pool = as_handle(session.driver.pools.default_pool(on_device(session, device), CU_MEM_ALLOCATION_TYPE_PINNED));
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return enter(Call::cuDeviceGetMemPool, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool");
    *pool = as_handle(session.driver.pools.current_pool(on_device(session, device), CU_MEM_ALLOCATION_TYPE_PINNED));
  });
}

MEMLAKE_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return enter(Call::cuDeviceSetMemPool, MEMLAKE_CALLER, [&](Session& session) {
    auto& pools = session.driver.pools;
    pools.set_current(on_device(session, device), CU_MEM_ALLOCATION_TYPE_PINNED, pools.find(pool));
  });
}

MEMLAKE_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return enter(Call::cuMemGetDefaultMemPool, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool");
    *pool = as_handle(session.driver.pools.default_pool(checked(session, location, type), type));
  });
}

MEMLAKE_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return enter(Call::cuMemGetMemPool, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool");
    *pool = as_handle(session.driver.pools.current_pool(checked(session, location, type), type));
  });
}

MEMLAKE_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return enter(Call::cuMemSetMemPool, MEMLAKE_CALLER, [&](Session& session) {
    auto& pools = session.driver.pools;
    pools.set_current(checked(session, location, type), type, pools.find(pool));
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  return enter(Call::cuMemPoolCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool");
    *pool =
        as_handle(session.driver.pools.create(required(props, "poolProps"), session.driver.version(), session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return enter(Call::cuMemPoolDestroy, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.pools.destroy(session.driver.pools.find(pool)); });
}

MEMLAKE_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return enter(Call::cuMemPoolSetAttribute, MEMLAKE_CALLER,
               [&](Session& session) { set_attribute(session.driver.pools.find(pool), attribute, value); });
}

MEMLAKE_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return enter(Call::cuMemPoolGetAttribute, MEMLAKE_CALLER,
               [&](Session& session) { get_attribute(session.driver.pools.find(pool), attribute, value); });
}

MEMLAKE_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  return enter(Call::cuMemPoolTrimTo, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.pools.trim(session.driver.pools.find(pool), keep); });
}

MEMLAKE_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptors, size_t count) {
  return enter(Call::cuMemPoolSetAccess, MEMLAKE_CALLER, [&](Session& session) {
    Pool& found = session.driver.pools.find(pool);
    required(descriptors, "map");
    if (count == 0) invalid("count is 0");
    session.driver.pools.set_access(found, std::span(descriptors, count));
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  return enter(Call::cuMemPoolGetAccess, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    auto& pools = session.driver.pools;
    *flags = static_cast<CUmemAccess_flags>(pools.access(pools.find(pool), required(location, "location")));
  });
}

MEMLAKE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return enter(Call::cuMemAllocAsync, MEMLAKE_CALLER,
               [&](Session& session) { allocate(session, address, bytes, nullptr, stream); });
}

MEMLAKE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                                CUstream stream) {
  return enter(Call::cuMemAllocFromPoolAsync, MEMLAKE_CALLER,
               [&](Session& session) { allocate(session, address, bytes, &session.driver.pools.find(pool), stream); });
}

MEMLAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return enter(Call::cuMemFreeAsync, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    Stream& in_order_of = driver.streams.find(stream);
    if (address == 0) invalid("the address is 0, which cuMemFreeAsync refuses (unlike cuMemFree)");
    if (driver.captures.is_capturing(in_order_of)) {
      const Graph& graph = driver.captures.graph_of(in_order_of);
      check_alloc_allowed(graph);
      driver.captures.add(in_order_of, free_params(driver, graph, address), session.origin);
      return;
    }
    const PoolAllocation* from_pool = driver.pools.allocations().find(address);
    if (from_pool != nullptr && from_pool->address == address)
      return driver.pools.free(*from_pool, in_order_of, session.origin);
    const Allocation* plain = driver.plain.find(address);
    if (plain != nullptr && plain->is_managed)
      invalid(Hex{address}, " is memory of cuMemAllocManaged; free it with cuMemFree");
    if (plain == nullptr || plain->address != address)
      invalid("no allocation starts at ", Hex{address},
              from_pool != nullptr || plain != nullptr ? "; it lies inside one" : " (any more)");
    if (plain->is_variable) invalid(Hex{address}, " is a variable of a module, which only its module frees");
    free_plain(session, *plain, in_order_of);
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool,
                                                         CUmemAllocationHandleType type, unsigned long long flags) {
  return enter(Call::cuMemPoolExportToShareableHandle, MEMLAKE_CALLER, [&](Session& session) {
    Pool& found = session.driver.pools.find(pool);
    int& fd = required(static_cast<int*>(handle), "handle_out");
    fd = session.driver.pools.export_pool(found, type, flags);
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                                           CUmemAllocationHandleType type, unsigned long long flags) {
  return enter(Call::cuMemPoolImportFromShareableHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(pool, "pool_out");
    // The descriptor travels by value in the pointer (B7).
    const auto fd = reinterpret_cast<std::intptr_t>(handle);
    if (fd < INT_MIN || fd > INT_MAX) invalid(handle, " is no file descriptor; pass it by value, not by its address");
    *pool = as_handle(session.driver.pools.import_pool(static_cast<int>(fd), type, flags, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  return enter(Call::cuMemPoolExportPointer, MEMLAKE_CALLER, [&](Session& session) {
    required(data, "shareData_out");
    *data = session.driver.pools.export_pointer(address);
  });
}

MEMLAKE_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  return enter(Call::cuMemPoolImportPointer, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "ptr_out");
    Pool& found = session.driver.pools.find(pool);
    *address = session.driver.pools.import_pointer(found, required(data, "shareData"), session.origin);
  });
}

}  // namespace memlake::emulator
