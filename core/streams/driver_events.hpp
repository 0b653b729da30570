#pragma once

// DriverEvents: the EventSource of a live pool. It records CUDA events in streams and reuses them.

#include <memory>
#include <optional>
#include <vector>

#include "driver/event.hpp"
#include "streams/driver_handles.hpp"
#include "streams/driver_progress.hpp"
#include "streams/driver_waits.hpp"
#include "streams/event_source.hpp"
#include "streams/stream_places.hpp"

namespace memlake {

class DriverEvents final : public EventSource {
 public:
  DriverEvents(StreamTable& streams, const StreamPlaces& places, DriverHandles& handles, DriverProgress& progress,
               DriverWaits& waits)
      : EventSource(handles, progress, waits, &places.unwrapped()),
        streams_(streams),
        places_(places),
        progress_(progress),
        waits_(waits) {}

  Ticket record(StreamId stream, const Block& block) override;
  Ticket record_point(StreamId stream) override;
  Ticket record_later(StreamId stream, const Block& block) override;
  bool has_point(Ticket ticket) override;
  void let_wait(StreamId waiter, Ticket ticket) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drop(Ticket ticket) override {
    events_[ticket].waits_for.reset();
    idle_[events_[ticket].place].push_back(ticket);
  }
  /// Destroys events that no ticket uses, if there are many.
  void shrink();

 private:
  struct OwnEvent {
    std::shared_ptr<EventOwner> event;       ///< made when it is recorded for the first time
    std::size_t place;                       ///< see StreamPlaces
    std::optional<StreamId> waits_for = {};  ///< the stream in which it is to be recorded
  };

  /// A ticket without a point.
  Ticket take(StreamId stream);
  /// The ticket gets a later point of the stream.
  void wait_for_point(StreamId stream, Ticket ticket);
  bool has_point(Ticket ticket, bool may_wait);
  /// False if the stream captures a graph; unless `may_wait`, also if it has ended and may still have work.
  bool try_record(StreamId stream, Ticket ticket, bool may_wait);
  /// Records the event in the stream now; false if the driver does not know the stream any more.
  bool record_now(const StreamUse& use, OwnEvent& own);

  StreamTable& streams_;
  const StreamPlaces& places_;
  DriverProgress& progress_;
  DriverWaits& waits_;
  std::vector<OwnEvent> events_;           // by ticket
  std::vector<std::vector<Ticket>> idle_;  // by place
};

}  // namespace memlake
