// Green contexts: sets of a device's multiprocessors with streams of their own.

#include <vector>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

GreenContext& find_alive(Session& session, CUgreenCtx context) {
  GreenContext& found = session.driver.contexts.find_green(context);
  session.driver.contexts.check_alive(found.primary);
  return found;
}

SmResource whole_of(const Device& device) { return {.device = device.ordinal, .set = Multiprocessors().set()}; }

void tell(const SmResource& resource, CUdevResource* told, CUdevResourceType type) {
  required(told, "resource");
  if (type != CU_DEV_RESOURCE_TYPE_SM)
    refuse(CUDA_ERROR_INVALID_RESOURCE_TYPE, "a driver of CUDA 13.0 knows only resources of type 1 (SM), not ", type);
  *told = resource.to_program();
}

}  // namespace

MEMLAKE_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  return enter(Call::cuDeviceGetDevResource, MEMLAKE_CALLER,
               [&](Session& session) { tell(whole_of(session.driver.devices.find(device)), resource, type); });
}

MEMLAKE_EXPORT CUresult cuCtxGetDevResource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  return enter(Call::cuCtxGetDevResource, MEMLAKE_CALLER, [&](Session& session) {
    Contexts& contexts = session.driver.contexts;
    const Context* whole = contexts.find(context);
    if (whole == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
    const GreenContext* green = contexts.green_of(reinterpret_cast<std::uint64_t>(context));
    tell(green != nullptr ? green->resource : whole_of(*whole->device), resource, type);
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource* resource, CUdevResourceType type) {
  return enter(Call::cuGreenCtxGetDevResource, MEMLAKE_CALLER,
               [&](Session& session) { tell(find_alive(session, context).resource, resource, type); });
}

MEMLAKE_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups, const CUdevResource* input,
                                                    CUdevResource* remaining, unsigned flags, unsigned least) {
  return enter(Call::cuDevSmResourceSplitByCount, MEMLAKE_CALLER, [&](Session& session) {
    required(groups, "groups");
    const SmResource whole = SmResource::from_program(required(input, "input"));
    session.driver.devices.find(whole.device);
    const unsigned most = result == nullptr ? kMultiprocessors : *groups;
    const SmSplit made = split(whole, most, least, flags, session.driver.contexts.next_split());
    *groups = static_cast<unsigned>(made.groups.size());
    if (result != nullptr)
      for (std::size_t at = 0; at < made.groups.size(); ++at) result[at] = made.groups[at].to_program();
    if (remaining != nullptr) *remaining = made.remainder.to_program();
  });
}

MEMLAKE_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                                  unsigned count) {
  return enter(Call::cuDevResourceGenerateDesc, MEMLAKE_CALLER, [&](Session& session) {
    required(description, "description");
    required(resources, "resources");
    if (count == 0 || count > kMultiprocessors) invalid("a description of ", count, " resources was asked for");
    std::vector<SmResource> parts;
    for (unsigned at = 0; at < count; ++at) parts.push_back(SmResource::from_program(resources[at]));
    *description = session.driver.contexts.describe(united(parts));
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device,
                                         unsigned flags) {
  return enter(Call::cuGreenCtxCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    Driver& driver = session.driver;
    Device& on = driver.devices.find(device);
    const SmResource& resource = driver.contexts.described(description);
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM) invalid("the flags must be 1 (DEFAULT_STREAM), not ", flags);
    if (resource.device != device)
      refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resource is of device ", resource.device,
             ", the green context of device ", device);
    driver.primary_context(on);
    ++on.primary_retains;
    *context = as_handle(driver.contexts.create_green(on, resource));
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  return enter(Call::cuGreenCtxDestroy, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.destroy_green(session.lock, session.driver.contexts.find_green(context));
  });
}

MEMLAKE_EXPORT CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green) {
  return enter(Call::cuCtxFromGreenCtx, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    *context = reinterpret_cast<CUcontext>(find_alive(session, green).view);
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxRecordEvent(CUgreenCtx context, CUevent event) {
  return enter(Call::cuGreenCtxRecordEvent, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    const GreenContext& green = find_alive(session, context);
    driver.events.record_group(driver.events.find(event), *driver.contexts.find(green.primary), green.view,
                               session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx context, CUevent event) {
  return enter(Call::cuGreenCtxWaitEvent, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    const GreenContext& green = find_alive(session, context);
    driver.events.wait_group(*driver.contexts.find(green.primary), green.view, driver.events.find(event),
                             session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* context) {
  return enter(Call::cuStreamGetGreenCtx, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    const GreenContext* green = session.driver.contexts.green_of(session.driver.streams.find(stream).view);
    *context = green == nullptr ? nullptr : as_handle(*green);
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority) {
  return enter(Call::cuGreenCtxStreamCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(stream, "stream");
    Driver& driver = session.driver;
    const GreenContext& green = find_alive(session, context);
    if (flags != CU_STREAM_NON_BLOCKING)
      invalid("the flags of a stream of a green context must be 1 (NON_BLOCKING), not ", flags);
    *stream = as_handle(
        driver.streams.create(*driver.contexts.find(green.primary), green.view, flags, priority, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuGreenCtxGetId(CUgreenCtx context, unsigned long long* id) {
  return enter(Call::cuGreenCtxGetId, MEMLAKE_CALLER, [&](Session& session) {
    required(id, "id");
    Contexts& contexts = session.driver.contexts;
    const GreenContext* current = contexts.green_of(contexts.current_view());
    if (context == nullptr && current == nullptr)
      refuse(CUDA_ERROR_INVALID_CONTEXT, "no green context is given, and none is current to this thread");
    *id = context == nullptr ? current->handle : find_alive(session, context).handle;
  });
}

}  // namespace memlake::emulator
