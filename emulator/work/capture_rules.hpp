#pragma once

// What CUDA allows while streams are being captured. A call that is not allowed spoils the captures that forbid it. The
// graphs that the captures fill are another matter: graphs/capture.hpp.

#include "work/stream.hpp"

namespace memlake::emulator {

class CaptureRules {
 public:
  explicit CaptureRules(const StreamMap& streams) : streams_(streams) {}

  /// Makes the stream the origin of a capture into the graph.
  void begin(Stream& stream, CUstreamCaptureMode mode, std::uint64_t graph, bool owns_graph, CaptureTips tips);
  /// Ends the capture in all its streams.
  void end(const CaptureRef& capture);

  /// Refuses a call that is not safe during a capture, if the mode of the calling thread asks for that; the captures
  /// that forbid it are spoilt.
  void check_safe();
  /// Throws what every operation on the stream must return during a capture: 901 if its capture is spoilt, 906 if the
  /// legacy stream would wait for a capturing stream, whose capture is then spoilt.
  void check_usable(Stream& stream);
  /// Refuses an operation that cannot be captured; the capture is spoilt.
  void check_not_capturing(Stream& stream);
  /// Refuses an operation on all streams of a context or a green context, if one of them is capturing.
  void check_none_captures(std::uint64_t group);
  /// Throws 906 as check_usable(), but spoils no capture. For queries.
  void check_not_implicit(const Stream& stream) const;

 private:
  const StreamMap& streams_;
  std::uint64_t next_ = 1;
  std::size_t count_ = 0;  // of captures that are under way
};

}  // namespace memlake::emulator
