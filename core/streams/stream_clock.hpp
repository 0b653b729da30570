#pragma once

// StreamClock: how far each stream has come. Freed memory gets a stamp; later the space asks whether the stream has
// passed it. An event for each free would be expensive, so a stamp names an epoch of the stream, and an epoch ends,
// with one event, when the space asks about it.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "streams/event_source.hpp"
#include "streams/reuse_rules.hpp"

namespace memlake {

class StreamClock {
 public:
  using Stamp = std::uint64_t;

  /// The moment of a free: an epoch of its stream, and a tick of StreamOrder.
  struct Moment {
    Stamp stamp = 0;
    StreamProgress::Tick tick = 0;
    /// The later of both. For merged memory the later free counts.
    [[nodiscard]] Moment later(Moment other) const {
      return {std::max(stamp, other.stamp), std::max(tick, other.tick)};
    }
  };
  /// The stream and the moment of a free.
  struct Freed {
    StreamId stream;
    Moment at;
  };
  /// Why a stream may reuse freed memory without a wait.
  enum class Reuse {
    none,     ///< it may not
    own,      ///< the stream freed the memory itself
    ordered,  ///< the program ordered the stream behind the free
    seen,     ///< the host has waited for the free, so every stream may, whatever the rules are
    passed,   ///< the stream that freed the memory happens to have passed the free
  };

  explicit StreamClock(EventSource& events) : events_(events) {}

  /// The moment of a free that happens now in the order of the stream.
  [[nodiscard]] Moment now(StreamId stream) { return {of(stream).open, events_.progress().now()}; }
  /// Whether the stream has passed the stamp. Asks the driver and may record an event.
  bool has_passed(StreamId stream, Stamp stamp);
  bool has_passed(const Freed& freed) { return has_passed(freed.stream, freed.at.stamp); }
  /// Whether that is known already, without a driver call.
  [[nodiscard]] bool is_known_passed(const Freed& freed) const {
    return freed.stream < streams_.size() && freed.at.stamp <= streams_[freed.stream].passed;
  }
  /// Whether a point of the stream can be recorded now, or its work is complete.
  [[nodiscard]] bool can_ask(StreamId stream) const { return events_.progress().can_record(stream); }
  /// Finds out whether all work of the stream is complete. Records no event, because an event recorded now would hardly
  /// be complete yet.
  void look(StreamId stream);
  /// Decides by the program's order of streams and its host waits; never returns `passed`. Makes no driver call.
  [[nodiscard]] Reuse known_reuse(StreamId stream, const Freed& freed, const ReuseRules& rules) const;
  /// Decides by all rules; may ask the driver.
  Reuse reuse(StreamId stream, const Freed& freed, const ReuseRules& rules);
  /// The host waits until the stream has passed the stamp. False if that is not possible now, because of a capture.
  bool wait(StreamId stream, Stamp stamp);
  bool wait(const Freed& freed) { return wait(freed.stream, freed.at.stamp); }
  /// Waits as wait(); Error(out_of_memory) instead of false.
  void wait_or_refuse(const Freed& freed);
  /// Makes later work of `waiter` wait on the device for all work queued on `stream` so far.
  void let_wait(StreamId waiter, StreamId stream);

 private:
  struct OfStream {
    Stamp open = 1;    ///< the current epoch
    Stamp passed = 0;  ///< the last epoch that the stream is known to have passed
    std::deque<std::pair<Stamp, EventSource::Ticket>> ended = {};
  };

  OfStream& of(StreamId stream) {
    if (streams_.size() <= stream) streams_.resize(std::size_t{stream} + 1);
    return streams_[stream];
  }
  /// Ends the open epoch if the stamp belongs to it.
  void end_epoch(StreamId stream, OfStream& of, Stamp stamp);

  EventSource& events_;
  std::vector<OfStream> streams_;
};

}  // namespace memlake
