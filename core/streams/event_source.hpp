#pragma once

// EventSource: records points of streams and tells a pool whether a stream has passed a point. A live pool uses CUDA
// events; in a replay the trace says when they are complete. Its parts know the streams, how far they have come, and
// how the host waits for them.

#include <cstdint>

#include "blocks/block.hpp"
#include "driver/driver.hpp"
#include "streams/stream_handles.hpp"
#include "streams/stream_progress.hpp"
#include "streams/stream_waits.hpp"

namespace memlake {

class EventSource {
 public:
  /// Names one recorded point.
  using Ticket = std::uint64_t;

  /// `driver`: the driver whose capture mode the pool relaxes during its calls; null if there is none.
  EventSource(StreamHandles& handles, StreamProgress& progress, StreamWaits& waits, Driver* driver)
      : handles_(handles), progress_(progress), waits_(waits), driver_(driver) {}
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  [[nodiscard]] StreamHandles& handles() const noexcept { return handles_; }
  [[nodiscard]] StreamProgress& progress() const noexcept { return progress_; }
  [[nodiscard]] StreamWaits& waits() const noexcept { return waits_; }
  /// The driver whose capture mode the pool relaxes during its calls; null if there is none.
  [[nodiscard]] Driver* driver() const noexcept { return driver_; }

  /// Records the current end of `stream`, because `block` was freed. While the stream captures a graph, nothing can be
  /// recorded: then a later end of the stream is recorded, once the capture is over. The same if the stream has ended
  /// and its work may still run, and if it is out of reach. Does not wait.
  virtual Ticket record(StreamId stream, const Block& block) = 0;
  /// Records the current end of `stream`, for no particular block; as record().
  virtual Ticket record_point(StreamId stream) = 0;
  /// As record(), without a driver call: a later end of the stream is recorded.
  virtual Ticket record_later(StreamId stream, const Block& block) { return record(stream, block); }
  /// Whether the point is recorded, if necessary by recording it now; that may wait for a stream that has ended. If
  /// not, its stream captures a graph, and only is_done() and drop() may be called with the ticket.
  virtual bool has_point(Ticket) { return true; }
  /// Makes later work of `waiter` wait for the point on the device. If `waiter` was destroyed, the host waits: then
  /// nothing but a wait keeps the order. The ticket stays valid. Error(out_of_memory) if `waiter` captures a graph,
  /// which cannot depend on work outside it. pre: has_point(ticket).
  virtual void let_wait(StreamId waiter, Ticket ticket) = 0;
  /// Whether the stream has passed the point. A ticket is no longer valid once is_done() has returned true, or after
  /// wait() or drop().
  virtual bool is_done(Ticket ticket) = 0;
  /// The host waits until the stream has passed the point. pre: has_point(ticket).
  virtual void wait(Ticket ticket) = 0;
  /// The ticket is no longer needed.
  virtual void drop(Ticket ticket) = 0;

 private:
  StreamHandles& handles_;
  StreamProgress& progress_;
  StreamWaits& waits_;
  Driver* driver_;
};

}  // namespace memlake
