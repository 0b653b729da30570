// Legacy sharing between processes: memory of cuMemAlloc, and events.

#include "entries/entry.hpp"

namespace memlake::emulator {

void check_not_open_elsewhere(const Driver& driver, const Allocation& allocation) {
  if (allocation.device->config.relaxes(Switch::inflight_unmap)) return;
  if (driver.plain.is_open_elsewhere(allocation))
    violate("the memory at ", Hex{allocation.address},
            " is freed while another process has it open; that process must call cuIpcCloseMemHandle first");
}

MEMLAKE_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return enter(Call::cuIpcGetMemHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "handle");
    Driver& driver = session.driver;
    if (driver.mappings.find_reservation(address) != nullptr)
      invalid("legacy IPC does not work on virtual memory; export the chunk instead (cuMemExportToShareableHandle)");
    if (driver.pools.allocations().find(address) != nullptr)
      invalid("legacy IPC does not work on pool memory; use cuMemPoolExportPointer on a pool made for export");
    const Allocation* found = driver.plain.find(address);
    if (found == nullptr) invalid("nothing is allocated at ", Hex{address});
    if (found->is_managed || found->is_variable)
      invalid("legacy IPC does not work on managed memory and on variables of modules");
    if (found->address != address && found->device->is_strict())
      invalid(Hex{address}, " is inside an allocation; the handle is made of its first address, ", Hex{found->address});
    driver.plain.export_handle(found->address, handle);
  });
}

MEMLAKE_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return enter(Call::cuIpcOpenMemHandle_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "the address pointer");
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) invalid("flags must be 1 (LAZY_ENABLE_PEER_ACCESS)");
    Driver& driver = session.driver;
    *address = driver.plain.open(driver.contexts.current(), driver.devices, &handle, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return enter(Call::cuIpcCloseMemHandle, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    driver.contexts.current();
    const auto find = [&]() -> const Allocation& {
      const Allocation* found = driver.plain.find(address);
      if (found == nullptr || found->address != address || found->imported == nullptr)
        invalid("no memory of cuIpcOpenMemHandle starts at ", Hex{address});
      return *found;
    };
    const Allocation& opened = find();
    const std::uint64_t size = opened.size;
    if (opened.imported->opens == 1) {
      if (!opened.device->config.relaxes(Switch::inflight_unmap))
        if (const WorkLabel* user = opened.uses.find_unseen(driver.order))
          violate("closing ", Hex{address}, ", but the host has not waited for ", user->describe(),
                  ", which uses it; wait for the work first (cuEventSynchronize, cuStreamSynchronize)");
      while (const Work* user = driver.in_flight.user_of(address, size))
        driver.streams.wait(session.lock, CompletionRef(user->completion));
    }
    find();  // another thread may have closed it meanwhile
    driver.plain.close(address);
  });
}

MEMLAKE_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return enter(Call::cuIpcGetEventHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "handle");
    Events::write_handle(session.driver.events.find(event), handle);
  });
}

MEMLAKE_EXPORT CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return enter(Call::cuIpcOpenEventHandle, MEMLAKE_CALLER, [&](Session& session) {
    required(event, "event");
    Driver& driver = session.driver;
    *event = as_handle(driver.events.open(driver.contexts.current(), &handle, session.origin));
  });
}

}  // namespace memlake::emulator
