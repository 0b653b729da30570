#include "streams/driver_events.hpp"

#include "base/error.hpp"
#include "driver/result.hpp"

namespace memlake {

EventSource::Ticket DriverEvents::take(StreamId stream) {
  const std::size_t on = streams_.device_of(stream);
  if (idle_[on].empty()) {
    events_.push_back({std::nullopt, on});
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
    if (!try_record(stream, ticket)) events_[ticket].waits_for = stream;
  } catch (...) {
    drop(ticket);
    throw;
  }
  return ticket;
}

EventSource::Ticket DriverEvents::record_later(StreamId stream, const Block&) {
  const Ticket ticket = take(stream);
  events_[ticket].waits_for = stream;
  return ticket;
}

bool DriverEvents::has_point(Ticket ticket) {
  const std::optional<StreamId> stream = events_[ticket].waits_for;
  if (!stream) return true;
  if (!try_record(*stream, ticket)) return false;
  events_[ticket].waits_for.reset();
  return true;
}

StreamState DriverEvents::state_of(StreamId stream) {
  StreamState state = StreamState::unknown;
  {
    const StreamUse use = streams_.use(stream);
    if (!use.is_alive()) return state;
    state = stream_state(*devices_[streams_.device_of(stream)], use.handle());
  }
  if (state == StreamState::unknown) streams_.note_end(stream);
  return state;
}

bool DriverEvents::try_record(StreamId stream, Ticket ticket) {
  OwnEvent& own = events_[ticket];
  Device& device = *devices_[own.device];
  if (!own.event) own.event.emplace(devices_[own.device], false);
  try {
    const StreamState state = state_of(stream);
    if (state == StreamState::capturing) return false;
    {
      const StreamUse use = streams_.use(stream);  // another thread may have destroyed it meanwhile
      if (state == StreamState::usual && use.is_alive()) {
        event_record(device, own.event->handle(), use.handle());
        return true;
      }
    }
    // Nothing can be recorded in a stream that was destroyed, or by another thread, and its work may still be running.
    // After a wait all of its work is behind the default stream.
    if (!wait_for_stream(stream)) return false;
    event_record(device, own.event->handle(), nullptr);
    return true;
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
}

void DriverEvents::let_wait(StreamId waiter, Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  switch (state_of(waiter)) {
    case StreamState::capturing:
      throw Error(ErrorKind::out_of_memory,
                  "free memory is behind work of another stream, and the requesting stream is capturing a graph");
    case StreamState::usual: {
      const StreamUse use = streams_.use(waiter);
      if (!use.is_alive()) break;
      stream_wait(*devices_[streams_.device_of(waiter)], use.handle(), own.event->handle());
      return;
    }
    case StreamState::unknown:
      break;
  }
  // A destroyed stream cannot carry the order on. Memory that goes back to it counts as free when its own work is
  // complete, so the host waits for the event.
  if (event_is_done(*devices_[own.device], own.event->handle())) return;
  ++host_waits_;
  event_synchronize(*devices_[own.device], own.event->handle());
}

bool DriverEvents::is_done(Ticket ticket) {
  if (!has_point(ticket)) return false;
  const OwnEvent& own = events_[ticket];
  if (!event_is_done(*devices_[own.device], own.event->handle())) return false;
  drop(ticket);
  return true;
}

void DriverEvents::wait(Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  if (!event_is_done(*devices_[own.device], own.event->handle())) {
    ++host_waits_;
    event_synchronize(*devices_[own.device], own.event->handle());
  }
  drop(ticket);
}

CUstream DriverEvents::handle_of(StreamId stream) {
  if (streams_.is_alive(stream)) return streams_.handle_of(stream);
  wait_for_stream(stream);
  return nullptr;
}

bool DriverEvents::wait_for_stream(StreamId stream) {
  Device& device = *devices_[streams_.device_of(stream)];
  const StreamState state = state_of(stream);
  if (state == StreamState::capturing) return false;
  {
    const StreamUse use = streams_.use(stream);
    if (use.is_complete()) return true;
    if (state == StreamState::usual && use.is_alive()) {
      if (stream_is_done(device, use.handle())) return true;
      ++host_waits_;
      stream_synchronize(device, use.handle());
      return true;
    }
    if (const EventOwner* end = use.last_event()) {
      if (event_is_done(device, end->handle())) return true;
      ++host_waits_;
      event_synchronize(device, end->handle());
      return true;
    }
  }
  ++host_waits_;
  try {
    device.synchronize();
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
  streams_.note_complete(stream);
  return true;
}

bool DriverEvents::can_record(StreamId stream) {
  // A capture would be spoilt, and what is captured is not running yet.
  if (const StreamState state = state_of(stream); state != StreamState::unknown) return state == StreamState::usual;
  const StreamUse use = streams_.use(stream);
  if (use.is_of_other_thread()) return false;
  const EventOwner* end = use.last_event();
  return end == nullptr || event_is_done(*devices_[streams_.device_of(stream)], end->handle());
}

bool DriverEvents::is_capturing(StreamId stream) { return state_of(stream) == StreamState::capturing; }

bool DriverEvents::is_idle(StreamId stream) {
  if (!can_record(stream)) return false;
  {
    const StreamUse use = streams_.use(stream);
    if (use.is_alive()) return stream_is_done(*devices_[streams_.device_of(stream)], use.handle());
  }
  // Its last point was passed; or it ended without one, and only a wait for the device tells.
  return wait_for_stream(stream);
}

std::optional<StreamOrder::Stream> DriverEvents::name_of(StreamId stream) const {
  if (!streams_.is_alive(stream)) return std::nullopt;
  return StreamOrder::Stream{devices_[streams_.device_of(stream)]->ordinal(), streams_.handle_of(stream)};
}

bool DriverEvents::is_behind(StreamId waiter, StreamId stream, Tick tick) const {
  const auto later = name_of(waiter);
  const auto earlier = name_of(stream);
  return later && earlier && order().is_behind(*later, *earlier, tick);
}

bool DriverEvents::was_waited_for(StreamId stream, Tick tick) const {
  const auto name = name_of(stream);
  return name && order().was_waited_for(*name, tick);
}

}  // namespace memlake
