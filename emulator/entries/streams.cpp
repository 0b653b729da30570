// Streams, events and host functions.

#include <algorithm>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

void record(Session& session, CUevent event, CUstream stream, unsigned flags) {
  Driver& driver = session.driver;
  Event& found = driver.events.find(event);
  Stream& queue = driver.streams.find(stream);
  if (flags > CU_EVENT_RECORD_EXTERNAL) invalid("flags ", flags, " are not 0 or 1 (EXTERNAL)");
  const bool is_external = flags == CU_EVENT_RECORD_EXTERNAL;
  if (!driver.captures.is_capturing(queue)) {
    if (is_external) invalid("the flag EXTERNAL is only for captures");
    return driver.events.record(found, queue, session.origin);
  }
  if (found.context != queue.context)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event belongs to another context than the stream");
  if (is_external) {
    driver.captures.add(queue, EventRecordNode{found.handle}, session.origin);
  } else {
    driver.captures.record(found, queue);
  }
}

void wait(Session& session, CUstream stream, CUevent event, unsigned flags) {
  Driver& driver = session.driver;
  Stream& queue = driver.streams.find(stream);
  Event& found = driver.events.find(event);
  if (flags > CU_EVENT_WAIT_EXTERNAL) invalid("flags ", flags, " are not 0 or 1 (EXTERNAL)");
  if (flags == CU_EVENT_WAIT_EXTERNAL) {
    if (!driver.captures.is_capturing(queue)) invalid("the flag EXTERNAL is only for captures");
    driver.captures.add(queue, EventWaitNode{found.handle}, session.origin);
  } else if (!driver.captures.wait(queue, found)) {
    driver.events.wait(queue, found, session.origin);
  }
}

void elapsed(Session& session, float* milliseconds, CUevent start, CUevent end) {
  required(milliseconds, "milliseconds");
  const Event& from = session.driver.events.find(start);
  const Event& to = session.driver.events.find(end);
  for (const Event* event : {&from, &to}) {
    Captures::check_not_captured(*event);
    if (event->recorded == nullptr) refuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
      refuse(CUDA_ERROR_INVALID_HANDLE, "an event was made with DISABLE_TIMING");
  }
  if (!from.recorded->is_done || !to.recorded->is_done) refuse(CUDA_ERROR_NOT_READY, "an event is not complete");
  *milliseconds = static_cast<float>(to.recorded->milliseconds - from.recorded->milliseconds);
}

}  // namespace

MEMLAKE_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return enter(Call::cuStreamCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(stream, "stream");
    Driver& driver = session.driver;
    Contexts& contexts = driver.contexts;
    *stream = as_handle(driver.streams.create(contexts.current(), contexts.current_view(), flags, 0, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return enter(Call::cuStreamCreateWithPriority, MEMLAKE_CALLER, [&](Session& session) {
    required(stream, "stream");
    Driver& driver = session.driver;
    Contexts& contexts = driver.contexts;
    *stream =
        as_handle(driver.streams.create(contexts.current(), contexts.current_view(), flags, priority, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter(Call::cuStreamDestroy_v2, MEMLAKE_CALLER, [&](Session& session) {
    Stream& found = session.driver.streams.find(stream);
    if (found.kind == Stream::Kind::created) session.driver.captures.forget(found);
    session.driver.streams.destroy(found);
  });
}

MEMLAKE_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return enter(Call::cuStreamQuery, MEMLAKE_CALLER, [&](Session& session) {
    auto& streams = session.driver.streams;
    return streams.query(streams.find(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

MEMLAKE_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return enter(Call::cuStreamSynchronize, MEMLAKE_CALLER, [&](Session& session) {
    Stream& found = session.driver.streams.find(stream);
    const std::uint64_t context = found.context;
    const Clock waited_for = session.driver.streams.synchronize(session.lock, found);
    session.driver.contexts.check_alive(context);  // what failed meanwhile is the answer
    session.driver.pools.synchronized(waited_for);
  });
}

MEMLAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return enter(Call::cuStreamWaitEvent, MEMLAKE_CALLER, [&](Session& session) { wait(session, stream, event, flags); });
}

MEMLAKE_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return enter(Call::cuStreamGetCtx, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    *context = reinterpret_cast<CUcontext>(session.driver.streams.find(stream).group());
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green_context) {
  return enter(Call::cuStreamGetCtx_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    const Stream& found = session.driver.streams.find(stream);
    if (found.view != 0 && found.kind == Stream::Kind::per_thread)
      refuse(CUDA_ERROR_INVALID_HANDLE, "the stream is the thread's default stream, and a green context is current");
    const GreenContext* green = session.driver.contexts.green_of(found.view);
    *context = reinterpret_cast<CUcontext>(found.context);
    if (green_context != nullptr) *green_context = green == nullptr ? nullptr : as_handle(*green);
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return enter(Call::cuStreamGetDevice, MEMLAKE_CALLER, [&](Session& session) {
    required(device, "device");
    *device = session.driver.streams.find(stream).device->ordinal;
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  return enter(Call::cuStreamGetId, MEMLAKE_CALLER, [&](Session& session) {
    required(id, "id");
    *id = session.driver.streams.find(stream).handle;
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return enter(Call::cuStreamGetFlags, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    *flags = session.driver.streams.find(stream).flags;
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return enter(Call::cuStreamGetPriority, MEMLAKE_CALLER, [&](Session& session) {
    required(priority, "priority");
    *priority = session.driver.streams.find(stream).priority;
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetAttribute(CUstream stream, int attribute, LaunchAttributeValue* value) {
  return enter(Call::cuStreamGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(value, "value");
    const Stream& found = session.driver.streams.find(stream);
    check_is_of_stream(attribute);
    const auto set = found.attributes.find(attribute);
    *value = set != found.attributes.end() ? set->second : default_of_stream(attribute, found.priority);
  });
}

MEMLAKE_EXPORT CUresult cuStreamSetAttribute(CUstream stream, int attribute, const LaunchAttributeValue* value) {
  return enter(Call::cuStreamSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    const LaunchAttributeValue& wish = required(value, "value");
    Stream& found = session.driver.streams.find(stream);
    check_is_of_stream(attribute);
    if (attribute == kPriorityAttribute) {
      found.priority = std::clamp(number_of(wish), kGreatestPriority, kLeastPriority);
    } else {
      found.attributes[attribute] = wish;
    }
  });
}

MEMLAKE_EXPORT CUresult cuStreamCopyAttributes(CUstream target, CUstream source) {
  return enter(Call::cuStreamCopyAttributes, MEMLAKE_CALLER, [&](Session& session) {
    Stream& to = session.driver.streams.find(target);
    const Stream& from = session.driver.streams.find(source);
    if (to.context != from.context) invalid("the streams belong to two contexts");
    to.attributes = from.attributes;
    to.priority = from.priority;
  });
}

MEMLAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return enter(Call::cuLaunchHostFunc, MEMLAKE_CALLER, [&](Session& session) {
    if (function == nullptr) invalid("the function is NULL");
    Driver& driver = session.driver;
    Stream& queue = driver.streams.find(stream);
    if (driver.captures.is_capturing(queue)) {
      driver.captures.add(queue, HostNode{{function, data}}, session.origin);
      return;
    }
    driver.streams.enqueue(queue, Work{.name = "cuLaunchHostFunc",
                                       .origin = session.origin,
                                       .body = host_function([function, data] { function(data); }),
                                       .tells_host = true});
  });
}

MEMLAKE_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return enter(Call::cuStreamAddCallback, MEMLAKE_CALLER, [&](Session& session) {
    if (callback == nullptr) invalid("the callback is NULL");
    if (flags != 0) invalid("flags must be 0");
    auto& streams = session.driver.streams;
    const auto call = [callback, stream, data] { callback(stream, CUDA_SUCCESS, data); };
    streams.enqueue(
        streams.find(stream),
        Work{.name = "cuStreamAddCallback", .origin = session.origin, .body = host_function(call), .tells_host = true});
  });
}

MEMLAKE_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return enter(Call::cuEventCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(event, "event");
    Driver& driver = session.driver;
    *event = as_handle(driver.events.create(driver.contexts.current(), flags, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  return enter(Call::cuEventDestroy_v2, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.events.destroy(session.driver.events.find(event)); });
}

MEMLAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter(Call::cuEventRecord, MEMLAKE_CALLER, [&](Session& session) { record(session, event, stream, 0); });
}

MEMLAKE_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return enter(Call::cuEventRecordWithFlags, MEMLAKE_CALLER,
               [&](Session& session) { record(session, event, stream, flags); });
}

MEMLAKE_EXPORT CUresult cuEventQuery(CUevent event) {
  return enter(Call::cuEventQuery, MEMLAKE_CALLER, [&](Session& session) {
    Events& events = session.driver.events;
    const Event& found = events.find(event);
    Captures::check_not_captured(found);
    return events.query(found) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

MEMLAKE_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return enter(Call::cuEventSynchronize, MEMLAKE_CALLER, [&](Session& session) {
    const Event& found = session.driver.events.find(event);
    Captures::check_not_captured(found);
    const std::uint64_t context = found.context;
    const Clock waited_for = session.driver.events.synchronize(session.lock, found);
    session.driver.contexts.check_alive(context);
    session.driver.pools.synchronized(waited_for);
  });
}

MEMLAKE_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return enter(Call::cuEventElapsedTime, MEMLAKE_CALLER,
               [&](Session& session) { elapsed(session, milliseconds, start, end); });
}

MEMLAKE_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return enter(Call::cuEventElapsedTime_v2, MEMLAKE_CALLER,
               [&](Session& session) { elapsed(session, milliseconds, start, end); });
}

}  // namespace memlake::emulator
