#pragma once

// StreamClock: how far each stream has come. What is freed gets a stamp; later one can ask whether the stream has
// passed it. Recording an event for each free would be dear, so a stamp names an epoch of the stream, and an epoch ends
// when somebody asks.

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

  /// A moment in the order of a stream: by the stream's own progress, and by the clock of the order of streams.
  struct Moment {
    Stamp stamp = 0;
    EventSource::Tick tick = 0;
    /// The moment at which both have come: of memory that was joined, the later free counts.
    [[nodiscard]] Moment later(Moment other) const {
      return {std::max(stamp, other.stamp), std::max(tick, other.tick)};
    }
  };
  /// Since when, and for which stream, memory is free.
  struct Freed {
    StreamId stream;
    Moment at;
  };
  /// Why a stream may have what was freed, without a wait.
  enum class Reuse {
    none,     ///< it may not
    own,      ///< it freed it itself
    ordered,  ///< the program ordered it behind that
    seen,     ///< the host has seen it to be over: so it is for everybody, whatever the rules are
    passed,   ///< the other stream happens to have passed
  };

  explicit StreamClock(EventSource& events) : events_(events) {}

  /// Of memory that is freed now in the order of the stream.
  [[nodiscard]] Moment now(StreamId stream) { return {of(stream).open, events_.now()}; }
  /// Whether the stream has passed it. Asks the driver, and may record an event.
  bool has_passed(StreamId stream, Stamp stamp);
  bool has_passed(const Freed& freed) { return has_passed(freed.stream, freed.at.stamp); }
  /// Finds out whether the stream has done everything, without recording an event: one that is recorded now would
  /// hardly be complete now.
  void look(StreamId stream);
  /// By what the program has said and done; `passed` is not among it. Makes no driver call.
  [[nodiscard]] Reuse known_reuse(StreamId stream, const Freed& freed, const ReuseRules& rules) const;
  /// By every rule.
  Reuse reuse(StreamId stream, const Freed& freed, const ReuseRules& rules);
  /// Waits in the host until it has.
  void wait(StreamId stream, Stamp stamp);
  void wait(const Freed& freed) { wait(freed.stream, freed.at.stamp); }
  /// Lets later work of `waiter` wait on the device for all work that `stream` has been given.
  void let_wait(StreamId waiter, StreamId stream);

 private:
  struct OfStream {
    Stamp open = 1;    ///< the epoch that goes on
    Stamp passed = 0;  ///< the last one that is known to be over
    std::deque<std::pair<Stamp, EventSource::Ticket>> ended = {};
  };

  OfStream& of(StreamId stream) {
    if (streams_.size() <= stream) streams_.resize(std::size_t{stream} + 1);
    return streams_[stream];
  }
  /// Ends the open epoch if the stamp is of it.
  void end_epoch(StreamId stream, OfStream& of, Stamp stamp);

  EventSource& events_;
  std::vector<OfStream> streams_;
};

}  // namespace memlake
