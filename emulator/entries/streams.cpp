// Streams, events, host functions and captures.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// Runs code of the program in stream order. It must not call the driver meanwhile.
auto host_function(std::function<void()> function) {
  return [function = std::move(function)] {
    is_in_host_function() = true;
    function();
    is_in_host_function() = false;
  };
}

void record(Session& session, CUevent event, CUstream stream) {
  auto& streams = session.driver.streams;
  streams.record(streams.find_event(event), streams.find(stream), session.origin);
}

void elapsed(Session& session, float* milliseconds, CUevent start, CUevent end) {
  required(milliseconds, "milliseconds");
  const Event& from = session.driver.streams.find_event(start);
  const Event& to = session.driver.streams.find_event(end);
  for (const Event* event : {&from, &to}) {
    if (event->recorded == nullptr) refuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
      refuse(CUDA_ERROR_INVALID_HANDLE, "an event was made with DISABLE_TIMING");
  }
  if (!from.recorded->is_done || !to.recorded->is_done) refuse(CUDA_ERROR_NOT_READY, "an event is not complete");
  *milliseconds = static_cast<float>(to.recorded->milliseconds - from.recorded->milliseconds);
}

void capture_info(Session& session, CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, size_t* count) {
  required(status, "captureStatus");
  const Stream& found = session.driver.streams.find(stream);
  *status = found.capture;
  if (id != nullptr) *id = found.capture_id;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
}

}  // namespace

MEMLAKE_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return enter(Call::cuStreamCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(stream, "stream");
    Driver& driver = session.driver;
    *stream = as_handle(driver.streams.create(driver.contexts.current(), flags, 0, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return enter(Call::cuStreamCreateWithPriority, MEMLAKE_CALLER, [&](Session& session) {
    required(stream, "stream");
    Driver& driver = session.driver;
    *stream = as_handle(driver.streams.create(driver.contexts.current(), flags, priority, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return enter(Call::cuStreamDestroy_v2, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.streams.destroy(session.driver.streams.find(stream)); });
}

MEMLAKE_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return enter(Call::cuStreamQuery, MEMLAKE_CALLER, [&](Session& session) {
    auto& streams = session.driver.streams;
    return streams.is_done(streams.find(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

MEMLAKE_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return enter(Call::cuStreamSynchronize, MEMLAKE_CALLER, [&](Session& session) {
    Stream& found = session.driver.streams.find(stream);
    const std::uint64_t context = found.context;
    const Clock waited_for = session.driver.streams.before(found);
    session.driver.streams.synchronize(session.lock, found);
    session.driver.contexts.check_alive(context);  // what failed meanwhile is the answer
    session.driver.pools.synchronized(waited_for);
  });
}

MEMLAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return enter(Call::cuStreamWaitEvent, MEMLAKE_CALLER, [&](Session& session) {
    if (flags != 0) invalid("flags must be 0 outside a capture");
    auto& streams = session.driver.streams;
    streams.wait_event(streams.find(stream), streams.find_event(event), session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx_v2(stream, context, nullptr);
}

MEMLAKE_EXPORT CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, void** green_context) {
  return enter(Call::cuStreamGetCtx_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    *context = reinterpret_cast<CUcontext>(session.driver.streams.find(stream).context);
    if (green_context != nullptr) *green_context = nullptr;
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

MEMLAKE_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return enter(Call::cuLaunchHostFunc, MEMLAKE_CALLER, [&](Session& session) {
    if (function == nullptr) invalid("the function is NULL");
    auto& streams = session.driver.streams;
    streams.enqueue(streams.find(stream), Work{.name = "cuLaunchHostFunc",
                                               .origin = session.origin,
                                               .body = host_function([function, data] { function(data); })});
  });
}

MEMLAKE_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  return enter(Call::cuStreamAddCallback, MEMLAKE_CALLER, [&](Session& session) {
    if (callback == nullptr) invalid("the callback is NULL");
    if (flags != 0) invalid("flags must be 0");
    auto& streams = session.driver.streams;
    const auto call = [callback, stream, data] { callback(stream, CUDA_SUCCESS, data); };
    streams.enqueue(streams.find(stream),
                    Work{.name = "cuStreamAddCallback", .origin = session.origin, .body = host_function(call)});
  });
}

MEMLAKE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return enter(Call::cuStreamIsCapturing, MEMLAKE_CALLER, [&](Session& session) {
    required(status, "captureStatus");
    *status = session.driver.streams.find(stream).capture;
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                  CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return enter(Call::cuStreamGetCaptureInfo_v2, MEMLAKE_CALLER,
               [&](Session& session) { capture_info(session, stream, status, id, graph, dependencies, count); });
}

MEMLAKE_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                  CUgraph* graph, const CUgraphNode** dependencies, const void** edges,
                                                  size_t* count) {
  return enter(Call::cuStreamGetCaptureInfo_v3, MEMLAKE_CALLER, [&](Session& session) {
    capture_info(session, stream, status, id, graph, dependencies, count);
    if (edges != nullptr) *edges = nullptr;
  });
}

MEMLAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return enter(Call::cuThreadExchangeStreamCaptureMode, MEMLAKE_CALLER, [&](Session&) {
    required(mode, "mode");
    if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      invalid("capture mode ", +*mode, " is unknown");
    std::swap(*mode, capture_mode_of_this_thread());
  });
}

MEMLAKE_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return enter(Call::cuStreamBeginCapture_v2, MEMLAKE_CALLER, [&](Session& session) {
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      invalid("capture mode ", +mode, " is unknown");
    session.driver.streams.begin_capture(session.driver.streams.find(stream), mode);
  });
}

MEMLAKE_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return enter(Call::cuStreamEndCapture, MEMLAKE_CALLER, [&](Session& session) {
    required(graph, "graph");
    session.driver.streams.end_capture(session.driver.streams.find(stream));
  });
}

MEMLAKE_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return enter(Call::cuEventCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(event, "event");
    Driver& driver = session.driver;
    *event = as_handle(driver.streams.create_event(driver.contexts.current(), flags, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  return enter(Call::cuEventDestroy_v2, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.streams.destroy_event(session.driver.streams.find_event(event));
  });
}

MEMLAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return enter(Call::cuEventRecord, MEMLAKE_CALLER, [&](Session& session) { record(session, event, stream); });
}

MEMLAKE_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return enter(Call::cuEventRecordWithFlags, MEMLAKE_CALLER, [&](Session& session) {
    if (flags != 0) invalid("flags must be 0 outside a capture");
    record(session, event, stream);
  });
}

MEMLAKE_EXPORT CUresult cuEventQuery(CUevent event) {
  return enter(Call::cuEventQuery, MEMLAKE_CALLER, [&](Session& session) {
    const Event& found = session.driver.streams.find_event(event);
    return found.recorded == nullptr || found.recorded->is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

MEMLAKE_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return enter(Call::cuEventSynchronize, MEMLAKE_CALLER, [&](Session& session) {
    const Event& found = session.driver.streams.find_event(event);
    const std::uint64_t context = found.context;
    const Clock waited_for = found.before;
    if (found.recorded != nullptr) session.driver.streams.wait(session.lock, CompletionRef(found.recorded));
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
