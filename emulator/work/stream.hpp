#pragma once

// One stream: its queue of work, its place in the order of all work, and the capture that it is part of.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "basics/origin.hpp"
#include "cuda/graph_abi.hpp"
#include "devices/device.hpp"
#include "work/clock.hpp"
#include "work/launch_attributes.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

/// The priorities of data-centre GPUs; lower is more urgent. They have no effect on the emulator.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

/// A node of a graph under capture, and the data of the edge to the next node.
struct CaptureTip {
  std::uint64_t node;
  CUgraphEdgeData edge = {};
};
using CaptureTips = std::vector<CaptureTip>;

/// A capture: the streams that belong to it share it.
struct Capture {
  std::uint64_t id;
  CUstreamCaptureMode mode;
  long thread;           ///< that began it
  std::uint64_t origin;  ///< the stream in which it began
  std::uint64_t graph;   ///< the graph that gets the nodes
  bool owns_graph;       ///< the graph is given to the program when the capture ends
  bool is_invalidated = false;
  bool has_ended = false;
  CaptureTips of_gone_streams = {};  ///< the last nodes of streams that were destroyed during the capture
};
using CaptureRef = std::shared_ptr<Capture>;

/// The streams that are gone which a clock remembers before it is swept for the first time.
inline constexpr std::size_t kMostGoneStreams = 64;

struct Queued {
  Work work;
  InFlight::Place place;
};

struct Stream {
  enum class Kind { legacy, per_thread, created };

  std::uint64_t handle;
  Kind kind;
  std::uint64_t context;
  Device* device;
  unsigned flags;
  int priority;
  Origin made_by;
  std::uint64_t view = 0;  ///< of its green context; 0: none
  std::deque<std::unique_ptr<Queued>> queue = {};
  CompletionRef last = {};    ///< the completion of the last queued work; null before the first
  bool is_busy = false;       ///< its first piece of work is running
  bool is_destroyed = false;  ///< the program can no longer use it; queued work still runs
  bool has_worker = false;
  std::condition_variable wake = {};           ///< of its worker: its first work can run, or it gets no more work
  std::uint64_t position = 0;                  ///< the number of its operations
  Clock before = {};                           ///< the clock of its next operation, its own earlier operations included
  std::size_t sweep_above = kMostGoneStreams;  ///< the size from which the clock is swept of streams that are gone
  std::map<int, LaunchAttributeValue> attributes = {};  ///< that the program has set, by CUstreamAttrID
  CaptureRef capture = {};                              ///< the capture that its operations become nodes of; null: none
  CaptureTips capture_tips = {};                        ///< the nodes that the next captured node depends on

  /// Whose default stream it is ordered with, and who waits for it: its green context, or its context.
  [[nodiscard]] std::uint64_t group() const { return view != 0 ? view : context; }
  [[nodiscard]] bool is_of(std::uint64_t a_group) const { return context == a_group || view == a_group; }
  [[nodiscard]] bool is_manual() const { return device->config.streams == StreamMode::manual; }
  [[nodiscard]] bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
  [[nodiscard]] CUstreamCaptureStatus capture_status() const {
    if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
};

/// All streams by handle. A stream is shared, because its worker, or a thread that steps or drops it, may use it after
/// its last work.
using StreamMap = std::unordered_map<std::uint64_t, std::shared_ptr<Stream>>;

inline CUstream as_handle(const Stream& stream) { return reinterpret_cast<CUstream>(stream.handle); }

}  // namespace memlake::emulator
