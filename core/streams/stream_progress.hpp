#pragma once

// StreamProgress: how far streams have come, without a point that was recorded before. A live pool asks the driver; in
// a replay no device work runs.

#include <atomic>
#include <cstdint>

#include "blocks/block.hpp"

namespace memlake {

class StreamProgress {
 public:
  /// A tick of StreamOrder, stored with a free.
  using Tick = std::uint64_t;

  /// `ticks`: null if it knows no order of streams.
  explicit StreamProgress(const std::atomic<Tick>* ticks = nullptr) : ticks_(ticks) {}
  StreamProgress(const StreamProgress&) = delete;
  StreamProgress& operator=(const StreamProgress&) = delete;
  virtual ~StreamProgress() = default;

  // What the program has ordered and waited for. These make no driver call.

  [[nodiscard]] Tick now() const { return ticks_ == nullptr ? 0 : ticks_->load(std::memory_order_relaxed); }
  /// Whether the program ordered later work of `waiter` behind the work that was queued on `stream` up to the tick.
  [[nodiscard]] virtual bool is_behind(StreamId, StreamId, Tick) const { return false; }
  /// Whether the program has waited for the work that was queued on `stream` up to the tick.
  [[nodiscard]] virtual bool was_waited_for(StreamId, Tick) const { return false; }

  // What the driver says. These do not wait.

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
  /// Whether the stream has no work left. If so, was_waited_for() is true of the work that it has had.
  virtual bool has_passed_all(StreamId) { return false; }
  /// Finds out which streams that have ended have no work left: was_waited_for() is true of them from then on.
  virtual void find_complete_ends() {}

 private:
  const std::atomic<Tick>* ticks_;
};

}  // namespace memlake
