#include "streams/driver_events.hpp"

#include "base/error.hpp"
#include "driver/result.hpp"

namespace memlake {

namespace {

// So many unused events stay for later, at each place.
constexpr std::size_t kMostIdle = 64;

}  // namespace

void DriverEvents::shrink() {
  for (const auto& idle : idle_)
    for (std::size_t i = kMostIdle; i < idle.size(); ++i) events_[idle[i - kMostIdle]].event.reset();
}

EventSource::Ticket DriverEvents::take(StreamId stream) {
  const std::size_t on = places_.place_of(stream);
  if (idle_.size() <= on) idle_.resize(on + 1);
  if (idle_[on].empty()) {
    events_.push_back({nullptr, on});
    idle_[on].push_back(events_.size() - 1);
  }
  const Ticket ticket = idle_[on].back();
  idle_[on].pop_back();
  return ticket;
}

EventSource::Ticket DriverEvents::record(StreamId stream, const Block&) { return record_point(stream); }

EventSource::Ticket DriverEvents::record_point(StreamId stream) {
  const Ticket ticket = take(stream);
  try {
    if (!try_record(stream, ticket, false)) wait_for_point(stream, ticket);
  } catch (...) {
    drop(ticket);
    throw;
  }
  return ticket;
}

EventSource::Ticket DriverEvents::record_later(StreamId stream, const Block&) {
  const Ticket ticket = take(stream);
  wait_for_point(stream, ticket);
  return ticket;
}

void DriverEvents::wait_for_point(StreamId stream, Ticket ticket) {
  events_[ticket].waits_for = stream;
  streams_.touch(stream, progress_.now());
}

bool DriverEvents::has_point(Ticket ticket) { return has_point(ticket, true); }

bool DriverEvents::has_point(Ticket ticket, bool may_wait) {
  const std::optional<StreamId> stream = events_[ticket].waits_for;
  if (!stream) return true;
  if (!try_record(*stream, ticket, may_wait)) return false;
  events_[ticket].waits_for.reset();
  return true;
}

bool DriverEvents::try_record(StreamId stream, Ticket ticket, bool may_wait) {
  OwnEvent& own = events_[ticket];
  try {
    bool is_recorded = false;
    const StreamState state =
        progress_.state_of(stream, [&](const StreamUse& use) { is_recorded = record_now(use, own); });
    if (state == StreamState::capturing) return false;
    if (is_recorded) return true;
    if (state == StreamState::usual) streams_.note_end(stream);
    // Nothing can be recorded in a stream that was destroyed or is out of reach, and its work may still be running.
    // When all of its work is complete, an event without a recording says what is true.
    if (may_wait ? !waits_.wait_for_stream(stream) : !progress_.has_completed(stream)) return false;
    own.event = nullptr;
    if (places_.is_own(own.place)) {
      own.event = places_.make_event(own.place);
    } else {  // the context may be gone with the stream
      own.event = std::make_shared<EventOwner>(places_.device_at(own.place), nullptr);
    }
    return true;
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
}

bool DriverEvents::record_now(const StreamUse& use, OwnEvent& own) {
  Device& device = *places_.device_at(own.place);
  for (bool is_new = own.event == nullptr;; is_new = true) {
    try {
      if (is_new) own.event = places_.make_event(own.place);
      event_record(device, own.event->handle(), use.handle());
      return true;
    } catch (const Error& error) {
      if (!is_about_lost_handle(error)) throw;
      // The event went with a context of another library; or the stream is not what it was. A request that has nothing
      // to do with the stream must not fail because of that.
      if (is_new || places_.is_own(own.place)) return false;
    }
  }
}

void DriverEvents::let_wait(StreamId waiter, Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  switch (progress_.state_of(waiter)) {
    case StreamState::capturing:
      throw Error(ErrorKind::out_of_memory,
                  "free memory is behind work of another stream, and the requesting stream is capturing a graph");
    case StreamState::usual: {
      const StreamUse use = streams_.use(waiter);
      if (!use.is_alive()) break;
      // An event of another library's context may be gone.
      if (!places_.is_own(own.place) && places_.is_event_done(own.place, *own.event)) return;
      stream_wait(places_.device_for(waiter), use.handle(), own.event->handle());
      return;
    }
    case StreamState::unknown:
      break;
  }
  // A destroyed stream cannot carry the order on. Memory that goes back to it counts as free when its own work is
  // complete, so the host waits for the event.
  waits_.wait_for_event(own.place, own.event);
}

bool DriverEvents::is_done(Ticket ticket) {
  if (!has_point(ticket, false)) return false;
  const OwnEvent& own = events_[ticket];
  if (!places_.is_event_done(own.place, *own.event)) return false;
  drop(ticket);
  return true;
}

void DriverEvents::wait(Ticket ticket) {
  waits_.wait_for_event(events_[ticket].place, events_[ticket].event);
  drop(ticket);
}

}  // namespace memlake
