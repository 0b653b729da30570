// Contexts and peer access between them.

#include <algorithm>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

Context& find_context(Session& session, CUcontext context) {
  Context* found = session.driver.contexts.find(context);
  if (found == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
  return *found;
}

Context& given_or_current(Session& session, CUcontext context) {
  return context == nullptr ? session.driver.contexts.current() : find_context(session, context);
}

void set_top(std::uint64_t handle) {
  auto& stack = Contexts::stack();
  if (stack.empty()) {
    if (handle != 0) stack.push_back(handle);
  } else if (handle != 0) {
    stack.back() = handle;
  } else {
    stack.pop_back();
  }
}

/// The view of a given or current green context; 0 if the context is a whole one.
std::uint64_t view_of(Session& session, CUcontext context) {
  Contexts& contexts = session.driver.contexts;
  if (context == nullptr) return contexts.current_view();
  const GreenContext* green = contexts.green_of(reinterpret_cast<std::uint64_t>(context));
  return green == nullptr ? 0 : green->view;
}

/// The handle that the program knows a context by: that of its view if the context is green.
std::uint64_t checked(Session& session, CUcontext context) {
  find_context(session, context);
  return reinterpret_cast<std::uint64_t>(context);
}

void synchronize(Session& session, const Context& context, std::uint64_t view) {
  Driver& driver = session.driver;
  const std::uint64_t handle = context.handle;
  if (view != 0) {
    const Clock waited_for = driver.streams.synchronize_green(session.lock, view);
    driver.contexts.check_alive(handle);
    return driver.pools.synchronized(waited_for);
  }
  const Clock waited_for = driver.streams.synchronize_context(session.lock, context);
  driver.contexts.check_alive(handle);  // returns the error of work that failed during the wait
  driver.pools.synchronized(waited_for, *driver.contexts.find(handle));
}

void create(Session& session, CUcontext* context, unsigned flags, CUdevice device) {
  required(context, "context");
  Device& on = session.driver.devices.find(device);
  if ((flags & ~kContextFlags) != 0) invalid("context flags ", flags, " are unknown");
  const Context& made = session.driver.create_context(on, false, flags);
  Contexts::stack().push_back(made.handle);
  *context = as_handle(made);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return enter(Call::cuDevicePrimaryCtxRetain, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    Device& on = session.driver.devices.find(device);
    const std::uint64_t primary = session.driver.primary_context(on);
    ++on.primary_retains;
    *context = reinterpret_cast<CUcontext>(primary);
  });
}

MEMLAKE_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return enter(Call::cuDevicePrimaryCtxRelease_v2, MEMLAKE_CALLER, [&](Session& session) {
    Device& on = session.driver.devices.find(device);
    if (on.primary_retains == 0)
      refuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context of device ", device, " is not retained");
    session.driver.release_primary(session.lock, on);
  });
}

// A reset ends the context and keeps the count: whoever retained it must still release it.
MEMLAKE_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return enter(Call::cuDevicePrimaryCtxReset_v2, MEMLAKE_CALLER, [&](Session& session) {
    Device& on = session.driver.devices.find(device);
    if (Context* primary = session.driver.contexts.find(on.primary_context))
      session.driver.destroy_context(session.lock, *primary);
  });
}

MEMLAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return enter(Call::cuDevicePrimaryCtxGetState, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    required(active, "active");
    const Device& on = session.driver.devices.find(device);
    *flags = on.primary_flags;
    *active = on.primary_context != 0 ? 1 : 0;
  });
}

MEMLAKE_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return enter(Call::cuDevicePrimaryCtxSetFlags_v2, MEMLAKE_CALLER, [&](Session& session) {
    Device& on = session.driver.devices.find(device);
    if ((flags & ~kContextFlags) != 0) invalid("context flags ", flags, " are unknown");
    on.primary_flags = flags;
  });
}

MEMLAKE_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return enter(Call::cuCtxCreate_v2, MEMLAKE_CALLER,
               [&](Session& session) { create(session, context, flags, device); });
}

MEMLAKE_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, void* parameters, unsigned flags, CUdevice device) {
  return enter(Call::cuCtxCreate_v4, MEMLAKE_CALLER, [&](Session& session) {
    if (parameters != nullptr) refuse(CUDA_ERROR_NOT_SUPPORTED, "execution affinity is not emulated");
    create(session, context, flags, device);
  });
}

MEMLAKE_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  return enter(Call::cuCtxDestroy_v2, MEMLAKE_CALLER, [&](Session& session) {
    Context& gone = find_context(session, context);
    if (gone.is_primary)
      refuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed (cuDevicePrimaryCtxRelease)");
    auto& stack = Contexts::stack();
    if (!stack.empty() && stack.back() == gone.handle) stack.pop_back();
    session.driver.destroy_context(session.lock, gone);
  });
}

MEMLAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return enter(Call::cuCtxSetCurrent, MEMLAKE_CALLER,
               [&](Session& session) { set_top(context == nullptr ? 0 : checked(session, context)); });
}

MEMLAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return enter(Call::cuCtxGetCurrent, MEMLAKE_CALLER, [&](Session&) {
    const auto& stack = Contexts::stack();
    required(context, "context") = stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
  });
}

MEMLAKE_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return enter(Call::cuCtxPushCurrent_v2, MEMLAKE_CALLER,
               [&](Session& session) { Contexts::stack().push_back(checked(session, context)); });
}

MEMLAKE_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return enter(Call::cuCtxPopCurrent_v2, MEMLAKE_CALLER, [&](Session&) {
    auto& stack = Contexts::stack();
    if (stack.empty()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current to this thread");
    if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.back());
    stack.pop_back();
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return enter(Call::cuCtxGetDevice, MEMLAKE_CALLER, [&](Session& session) {
    required(device, "device") = session.driver.contexts.current().device->ordinal;
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return enter(Call::cuCtxGetDevice_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(device, "device") = given_or_current(session, context).device->ordinal;
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  return enter(Call::cuCtxGetFlags, MEMLAKE_CALLER,
               [&](Session& session) { required(flags, "flags") = session.driver.contexts.current().flags; });
}

MEMLAKE_EXPORT CUresult cuCtxSynchronize() {
  return enter(Call::cuCtxSynchronize, MEMLAKE_CALLER, [&](Session& session) {
    synchronize(session, session.driver.contexts.current(), view_of(session, nullptr));
  });
}

MEMLAKE_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
  return enter(Call::cuCtxSynchronize_v2, MEMLAKE_CALLER, [&](Session& session) {
    synchronize(session, given_or_current(session, context), view_of(session, context));
  });
}

MEMLAKE_EXPORT CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
  return enter(Call::cuCtxRecordEvent, MEMLAKE_CALLER, [&](Session& session) {
    Context& whole = given_or_current(session, context);
    const std::uint64_t view = view_of(session, context);
    Events& events = session.driver.events;
    events.record_group(events.find(event), whole, view != 0 ? view : whole.handle, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuCtxWaitEvent(CUcontext context, CUevent event) {
  return enter(Call::cuCtxWaitEvent, MEMLAKE_CALLER, [&](Session& session) {
    Context& whole = given_or_current(session, context);
    const std::uint64_t view = view_of(session, context);
    Events& events = session.driver.events;
    events.wait_group(whole, view != 0 ? view : whole.handle, events.find(event), session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return enter(Call::cuCtxEnablePeerAccess, MEMLAKE_CALLER, [&](Session& session) {
    Context& current = session.driver.contexts.current();
    if (flags != 0) invalid("flags must be 0");
    const Context& other = find_context(session, peer);
    if (&other == &current) refuse(CUDA_ERROR_INVALID_CONTEXT, "the peer is the current context");
    if (!current.device->can_access(other.device->ordinal))
      refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device ", current.device->ordinal, " cannot reach device ",
             other.device->ordinal);
    if (!current.peers.insert(other.handle).second)
      refuse(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already");
  });
}

MEMLAKE_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return enter(Call::cuCtxDisablePeerAccess, MEMLAKE_CALLER, [&](Session& session) {
    Context& current = session.driver.contexts.current();
    if (current.peers.erase(find_context(session, peer).handle) == 0)
      refuse(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access was not enabled");
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return enter(Call::cuCtxGetStreamPriorityRange, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.contexts.current();
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  return enter(Call::cuCtxGetApiVersion, MEMLAKE_CALLER, [&](Session& session) {
    required(version, "version");
    given_or_current(session, context);
    *version = 3020;
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  return enter(Call::cuCtxGetId, MEMLAKE_CALLER, [&](Session& session) {
    required(id, "id");
    const std::uint64_t whole = given_or_current(session, context).handle;
    const std::uint64_t view = view_of(session, context);
    *id = view != 0 ? view : whole;
  });
}

}  // namespace memlake::emulator
