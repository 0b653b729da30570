// Stream capture.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

void check_mode(CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    invalid("capture mode ", +mode, " is unknown");
}

void capture_info(Session& session, CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  required(status, "captureStatus");
  Driver& driver = session.driver;
  const Stream& found = driver.streams.find(stream);
  driver.streams.capture_rules.check_not_implicit(found);
  if (edges != nullptr && dependencies == nullptr) invalid("edgeData_out without dependencies_out");
  *status = found.capture_status();
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    if (id != nullptr) *id = found.capture != nullptr ? found.capture->id : 0;
    if (graph != nullptr) *graph = nullptr;
    if (dependencies != nullptr) *dependencies = nullptr;
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = 0;
    return;
  }
  if (id != nullptr) *id = found.capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(found.capture->graph);
  const Captures::Told& told = driver.captures.tell(found);
  if (dependencies != nullptr) *dependencies = told.nodes.data();
  if (edges != nullptr) *edges = told.edges.data();
  if (count != nullptr) *count = told.nodes.size();
}

}  // namespace

MEMLAKE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return enter(Call::cuStreamIsCapturing, MEMLAKE_CALLER, [&](Session& session) {
    required(status, "captureStatus");
    const Stream& found = session.driver.streams.find(stream);
    session.driver.streams.capture_rules.check_not_implicit(found);
    *status = found.capture_status();
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                  CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return enter(Call::cuStreamGetCaptureInfo_v2, MEMLAKE_CALLER, [&](Session& session) {
    capture_info(session, stream, status, id, graph, dependencies, nullptr, count);
  });
}

MEMLAKE_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                                  CUgraph* graph, const CUgraphNode** dependencies,
                                                  const CUgraphEdgeData** edges, size_t* count) {
  return enter(Call::cuStreamGetCaptureInfo_v3, MEMLAKE_CALLER,
               [&](Session& session) { capture_info(session, stream, status, id, graph, dependencies, edges, count); });
}

MEMLAKE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return enter(Call::cuThreadExchangeStreamCaptureMode, MEMLAKE_CALLER, [&](Session&) {
    required(mode, "mode");
    check_mode(*mode);
    std::swap(*mode, this_thread.capture_mode);
  });
}

MEMLAKE_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return enter(Call::cuStreamBeginCapture_v2, MEMLAKE_CALLER, [&](Session& session) {
    check_mode(mode);
    session.driver.captures.begin(session.driver.streams.find(stream), mode, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                                    const CUgraphEdgeData* data, size_t count,
                                                    CUstreamCaptureMode mode) {
  return enter(Call::cuStreamBeginCaptureToGraph, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    check_mode(mode);
    Stream& found = driver.streams.find(stream);
    Graph& into = driver.graphs.find(graph);
    driver.captures.begin_into(found, into, driver.graphs.dependencies(into, dependencies, data, count), mode);
  });
}

MEMLAKE_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                                          unsigned flags) {
  return enter(Call::cuStreamUpdateCaptureDependencies, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.captures.update(session.driver.streams.find(stream), dependencies, nullptr, count, flags);
  });
}

MEMLAKE_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* dependencies,
                                                             const CUgraphEdgeData* data, size_t count,
                                                             unsigned flags) {
  return enter(Call::cuStreamUpdateCaptureDependencies_v2, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.captures.update(session.driver.streams.find(stream), dependencies, data, count, flags);
  });
}

MEMLAKE_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return enter(Call::cuStreamEndCapture, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    Stream& found = driver.streams.find(stream);
    if (found.capture == nullptr) refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not capturing");
    required(graph, "graph");
    const CaptureRef capture = found.capture;
    try {
      *graph = as_handle(driver.captures.end(found));
    } catch (const Refusal&) {
      if (capture->has_ended) *graph = nullptr;
      throw;
    }
  });
}

}  // namespace memlake::emulator
