#include "graphs/capture.hpp"

#include <algorithm>
#include <unordered_set>

#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

void add_tips(CaptureTips& tips, const CaptureTips& more) {
  for (const CaptureTip& tip : more)
    if (std::ranges::find(tips, tip.node, &CaptureTip::node) == tips.end()) tips.push_back(tip);
}

}  // namespace

void Captures::check_can_begin(Stream& stream) {
  if (stream.kind == Stream::Kind::legacy)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
  if (stream.capture != nullptr) refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is capturing already");
}

void Captures::begin(Stream& stream, CUstreamCaptureMode mode, const Origin& origin) {
  check_can_begin(stream);
  Graph& graph = graphs_.create(origin);
  ++graph.captures;
  streams_.capture_rules.begin(stream, mode, graph.handle, true, {});
}

void Captures::begin_into(Stream& stream, Graph& graph, const std::vector<Edge>& before, CUstreamCaptureMode mode) {
  check_can_begin(stream);
  CaptureTips tips;
  for (const Edge& edge : before) tips.push_back({edge.node->handle, edge.data});
  ++graph.captures;
  streams_.capture_rules.begin(stream, mode, graph.handle, false, std::move(tips));
}

bool Captures::is_joined(const Stream& origin) {
  std::unordered_set<const Node*> joined;
  std::vector<const Node*> open;
  for (const CaptureTip& tip : origin.capture_tips)
    if (const Node* node = graphs_.find_node_or_null(tip.node)) open.push_back(node);
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!joined.insert(node).second) continue;
    for (const Edge& edge : node->before) open.push_back(edge.node);
  }
  const auto are_joined = [&](const CaptureTips& tips) {
    return std::ranges::all_of(tips, [&](const CaptureTip& tip) {
      const Node* node = graphs_.find_node_or_null(tip.node);
      return node == nullptr || joined.contains(node);  // the program may have removed it
    });
  };
  return are_joined(origin.capture->of_gone_streams) && std::ranges::all_of(streams_.all(), [&](const auto& entry) {
           return entry.second->capture != origin.capture || are_joined(entry.second->capture_tips);
         });
}

void Captures::drop_graph(const Capture& capture) {
  Graph* graph = graphs_.find_or_null(capture.graph);
  if (graph == nullptr) return;
  --graph->captures;
  if (capture.owns_graph) graphs_.drop(*graph);
}

Graph& Captures::end(Stream& stream) {
  const CaptureRef capture = stream.capture;
  if (capture == nullptr) refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not capturing");
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread_id())
    refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "thread ", capture->thread, " began the capture and must end it");
  if (capture->origin != stream.handle)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream and must end there");
  Graph* graph = graphs_.find_or_null(capture->graph);
  const bool is_whole = is_joined(stream);
  streams_.capture_rules.end(capture);
  if (capture->is_invalidated || graph == nullptr || !is_whole) {
    drop_graph(*capture);
    if (capture->is_invalidated || graph == nullptr)
      refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has spoilt the capture");
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream has joined the capture, and the stream in which the capture ",
           "began does not wait for its last work; record an event there and wait for it here");
  }
  --graph->captures;
  return *graph;
}

void Captures::forget(Stream& stream) {
  told_.erase(stream.handle);
  const CaptureRef capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == stream.handle) {
    streams_.capture_rules.end(capture);
    drop_graph(*capture);
    return;
  }
  add_tips(capture->of_gone_streams, stream.capture_tips);
  stream.capture.reset();
}

bool Captures::is_capturing(Stream& stream) {
  streams_.capture_rules.check_usable(stream);
  return stream.capture != nullptr;
}

Graph& Captures::graph_of(const Stream& stream) {
  Graph* graph = graphs_.find_or_null(stream.capture->graph);
  if (graph == nullptr)
    spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the graph of the capture is gone");
  return *graph;
}

Node& Captures::add(Stream& stream, NodeParams params, const Origin& origin) {
  Graph& graph = graph_of(stream);
  std::vector<Edge> before;
  for (const CaptureTip& tip : stream.capture_tips)
    if (Node* node = graphs_.find_node_or_null(tip.node)) before.push_back({node, tip.edge});
  Node& made = graphs_.add(graph, std::move(params), before, origin);
  stream.capture_tips = {{made.handle, {}}};
  return made;
}

void Captures::spoil(Capture& capture, CUresult code, const char* sentence) {
  capture.is_invalidated = true;
  refuse(code, sentence, "; the capture is spoilt");
}

void Captures::record(Event& event, Stream& stream) {
  event.capture = stream.capture;
  event.capture_tips = stream.capture_tips;
}

bool Captures::wait(Stream& stream, Event& event) {
  streams_.capture_rules.check_usable(stream);
  if (stream.capture == nullptr) {
    if (event.capture == nullptr) return false;
    if (event.capture->has_ended)
      refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture that has ended");
    if (event.capture->is_invalidated)
      refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has spoilt the capture of the event");
    if (stream.kind == Stream::Kind::legacy)
      spoil(*event.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy default stream cannot join a capture");
    stream.capture = event.capture;
    stream.capture_tips = event.capture_tips;
    return true;
  }
  if (event.capture == nullptr || event.capture->has_ended)
    spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "the stream is capturing, and the event was not recorded in its capture");
  if (event.capture != stream.capture) {
    event.capture->is_invalidated = true;
    spoil(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, "the event was recorded in another capture");
  }
  add_tips(stream.capture_tips, event.capture_tips);
  return true;
}

void Captures::check_not_captured(const Event& event) {
  if (event.capture == nullptr) return;
  if (!event.capture->has_ended) event.capture->is_invalidated = true;
  refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture, so it never completes");
}

void Captures::update(Stream& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data, std::size_t count,
                      unsigned flags) {
  if (stream.capture == nullptr) refuse(CUDA_ERROR_ILLEGAL_STATE, "the stream is not capturing");
  streams_.capture_rules.check_usable(stream);
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) invalid("flags ", flags, " are not 0 (ADD) or 1 (SET)");
  CaptureTips tips;
  for (const Edge& edge : graphs_.dependencies(graph_of(stream), nodes, data, count))
    tips.push_back({edge.node->handle, edge.data});
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    stream.capture_tips = std::move(tips);
  } else {
    add_tips(stream.capture_tips, tips);
  }
}

const Captures::Told& Captures::tell(const Stream& stream) {
  Told& told = told_[stream.handle];
  told = {};
  for (const CaptureTip& tip : stream.capture_tips) {
    told.nodes.push_back(reinterpret_cast<CUgraphNode>(tip.node));
    told.edges.push_back(tip.edge);
  }
  return told;
}

}  // namespace memlake::emulator
