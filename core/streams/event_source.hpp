#pragma once

// EventSource: how the pool learns that a stream has passed a point. Real CUDA events in a live pool; in a replay the
// trace says when they are complete.

#include <atomic>
#include <cstdint>

#include "blocks/block.hpp"
#include "driver/driver.hpp"

namespace memlake {

class EventSource {
 public:
  /// Names one recorded point.
  using Ticket = std::uint64_t;
  /// When something was freed, by the clock of those who say how streams are ordered.
  using Tick = std::uint64_t;

  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  /// Marks the point that `stream` has reached, because of `block`.
  virtual Ticket record(StreamId stream, const Block& block) = 0;
  /// Marks the point that `stream` has reached, whatever led there.
  virtual Ticket record_point(StreamId stream) = 0;
  /// Lets later work of `waiter` wait on the device; the ticket stays valid.
  virtual void let_wait(StreamId waiter, Ticket ticket) = 0;
  /// A ticket is used up when it is found done, waited for, or dropped.
  virtual bool is_done(Ticket ticket) = 0;
  /// Waits in the host until it is done.
  virtual void wait(Ticket ticket) = 0;
  /// Nobody asks for this one any more.
  virtual void drop(Ticket ticket) = 0;
  /// The stream for the driver's own functions. Of one that was destroyed the default one, after a wait for the device.
  virtual CUstream handle_of(StreamId stream) = 0;
  /// The number of the device that the stream works on.
  [[nodiscard]] virtual std::size_t device_of(StreamId) const { return 0; }
  /// Waits in the host until the stream has done everything.
  virtual void wait_for_stream(StreamId stream) = 0;
  /// Whether a point of the stream can be recorded, or asked for, now and without waiting: not while it captures a
  /// graph, nor once it was destroyed until its work is over.
  virtual bool can_record(StreamId) { return true; }
  /// Whether it has. Waits only where a stream was destroyed whose last point nobody knows.
  virtual bool is_idle(StreamId stream) = 0;

  [[nodiscard]] Tick now() const { return ticks_ == nullptr ? 0 : ticks_->load(std::memory_order_relaxed); }
  /// Whether the program ordered later work of `waiter` behind what `stream` had been given at the tick.
  [[nodiscard]] virtual bool is_behind(StreamId, StreamId, Tick) const { return false; }
  /// Whether the program waited for what `stream` had been given at the tick.
  [[nodiscard]] virtual bool was_waited_for(StreamId, Tick) const { return false; }

 protected:
  const std::atomic<Tick>* ticks_ = nullptr;  ///< null where nobody says anything
};

}  // namespace memlake
