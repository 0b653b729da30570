#pragma once

// Stream capture: operations of a stream become nodes of a graph instead of work. Another stream joins the capture when
// it waits for an event that was recorded in it, and must be joined to the first stream again before the capture ends.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graphs/graph.hpp"
#include "work/event.hpp"

namespace memlake::emulator {

class Captures {
 public:
  Captures(Streams& streams, Graphs& graphs) : streams_(streams), graphs_(graphs) {}

  /// Begins a capture into a new graph.
  void begin(Stream& stream, CUstreamCaptureMode mode, const Origin& origin);
  /// Begins a capture into a graph of the program; the first node depends on `before`.
  void begin_into(Stream& stream, Graph& graph, const std::vector<Edge>& before, CUstreamCaptureMode mode);
  /// Returns the graph. Throws 901 and 904 after it has ended the capture.
  Graph& end(Stream& stream);

  /// Whether an operation of the stream is to be captured. Throws as Streams::check_usable().
  [[nodiscard]] bool is_capturing(Stream& stream);
  /// pre: the stream is capturing.
  Graph& graph_of(const Stream& stream);
  Node& add(Stream& stream, NodeParams params, const Origin& origin);

  void record(Event& event, Stream& stream);
  /// Orders the stream behind an event of a capture; a stream that is not capturing joins it. Returns false if neither
  /// is captured.
  bool wait(Stream& stream, Event& event);
  /// Throws 907 if the event was last recorded in a capture, which is spoilt.
  static void check_not_captured(const Event& event);

  /// Replaces the nodes that the next node depends on, or adds to them.
  void update(Stream& stream, const CUgraphNode* nodes, const CUgraphEdgeData* data, std::size_t count, unsigned flags);

  /// The stream will be destroyed: the capture that began in it ends.
  void forget(Stream& stream);

  /// The nodes that the next node of the stream depends on, in arrays that the driver owns.
  struct Told {
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
  };
  const Told& tell(const Stream& stream);

 private:
  void check_can_begin(Stream& stream);
  [[noreturn]] static void spoil(Capture& capture, CUresult code, const char* sentence);
  [[nodiscard]] bool is_joined(const Stream& origin);
  void drop_graph(const Capture& capture);

  Streams& streams_;
  Graphs& graphs_;
  std::unordered_map<std::uint64_t, Told> told_;  // by stream
};

}  // namespace memlake::emulator
