#pragma once

// EventSource: tells a pool whether a stream has passed a point. A live pool uses CUDA events; in a replay the trace
// says when they are complete.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "blocks/block.hpp"
#include "driver/driver.hpp"

namespace memlake {

class EventSource {
 public:
  /// Names one recorded point.
  using Ticket = std::uint64_t;
  /// A tick of StreamOrder, stored with a free.
  using Tick = std::uint64_t;

  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // A stream of another library can be used while a call of the program names it; see Naming.

  /// Returns a number for end_naming().
  virtual std::uint64_t begin_naming(StreamId) { return 0; }
  virtual void end_naming(StreamId, std::uint64_t) noexcept {}

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
  /// The stream's handle for driver calls. If the stream was destroyed or is out of reach: the default stream, after a
  /// wait for the work of that stream.
  virtual CUstream handle_of(StreamId stream) = 0;
  /// The same without a wait; std::nullopt if the stream was destroyed or is out of reach.
  virtual std::optional<CUstream> usable_handle_of(StreamId stream) { return handle_of(stream); }
  /// The number of the device that the stream works on.
  [[nodiscard]] virtual std::size_t device_of(StreamId) const { return 0; }
  /// The host waits until all work of the stream is complete. False if that is not possible now: the stream captures a
  /// graph, or its end is unknown and a capture keeps the host from waiting for the device.
  virtual bool wait_for_stream(StreamId stream) = 0;
  /// The host waits until all work of all devices is complete, then `then` is called; false if a capture forbids that.
  virtual bool wait_for_devices(const std::function<void()>& then) {
    then();
    return true;
  }
  /// To be called before a driver call that waits for a whole device: the host waits for that work here, where the
  /// caller can unlock the pool. Does nothing if no stream is known to have work.
  virtual void prepare_device_wait() {}
  /// Whether a point of the stream can be recorded or queried now without a wait: not while the stream captures a
  /// graph, and not while work of a stream may still run that was destroyed or is out of reach.
  virtual bool can_record(StreamId) { return true; }
  /// Whether the stream captures a graph. Then an event recorded on it would become a part of the graph.
  virtual bool is_capturing(StreamId) { return false; }
  /// Whether all work of the stream is known to be complete.
  virtual bool is_idle(StreamId stream) = 0;
  /// Whether a stream that the pool has seen is known to have work left. A call that waits for the whole device would
  /// wait for that stream.
  virtual bool is_any_busy() { return false; }

  /// Finds out which streams that have ended have no work left: was_waited_for() is true of them from then on.
  virtual void look_at_ends() {}
  /// Whether many requests came since one named the stream.
  [[nodiscard]] virtual bool is_unused_for_long(StreamId) const { return false; }
  /// Asks the driver whether the stream has no work left. If so, was_waited_for() is true of the work that it has had.
  virtual bool has_passed_all(StreamId) { return false; }

  /// The driver whose capture mode the pool relaxes during its calls; null if there is none.
  [[nodiscard]] virtual Driver* driver() { return nullptr; }

  [[nodiscard]] Tick now() const { return ticks_ == nullptr ? 0 : ticks_->load(std::memory_order_relaxed); }
  /// Whether the program ordered later work of `waiter` behind the work that was queued on `stream` up to the tick.
  [[nodiscard]] virtual bool is_behind(StreamId, StreamId, Tick) const { return false; }
  /// Whether the program has waited for the work that was queued on `stream` up to the tick.
  [[nodiscard]] virtual bool was_waited_for(StreamId, Tick) const { return false; }

 protected:
  const std::atomic<Tick>* ticks_ = nullptr;  ///< null if the source knows no order of streams
};

/// While it lives, a call of the program names the stream: the program guarantees that the stream exists. pre: the
/// pool's lock is held when it is made and when it is destroyed.
class Naming {
 public:
  Naming(EventSource& events, StreamId stream)
      : events_(&events), stream_(stream), generation_(events.begin_naming(stream)) {}
  Naming(Naming&& other) noexcept
      : events_(std::exchange(other.events_, nullptr)), stream_(other.stream_), generation_(other.generation_) {}
  Naming& operator=(Naming&&) = delete;
  ~Naming() {
    if (events_ != nullptr) events_->end_naming(stream_, generation_);
  }

 private:
  EventSource* events_;
  StreamId stream_;
  std::uint64_t generation_;
};

}  // namespace memlake
