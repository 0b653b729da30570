#include "streams/driver_events.hpp"

namespace memlake {

EventSource::Ticket DriverEvents::record(StreamId stream, const Block&) { return record_point(stream); }

EventSource::Ticket DriverEvents::record_point(StreamId stream) {
  const std::size_t on = streams_.device_of(stream);
  if (idle_[on].empty()) {
    events_.push_back({EventOwner(devices_[on], false), on});
    idle_[on].push_back(events_.size() - 1);
  }
  const Ticket ticket = idle_[on].back();
  if (!try_record(stream, ticket)) {
    // Nothing can be recorded in a stream that was destroyed, and its work may still be running. After a wait all of
    // its work is behind the default stream.
    wait_for_stream(stream);
    event_record(*devices_[on], events_[ticket].event.handle(), nullptr);
  }
  idle_[on].pop_back();
  return ticket;
}

bool DriverEvents::try_record(StreamId stream, Ticket ticket) {
  const StreamUse use = streams_.use(stream);
  if (!use.is_alive()) return false;
  event_record(*devices_[streams_.device_of(stream)], events_[ticket].event.handle(), use.handle());
  return true;
}

void DriverEvents::let_wait(StreamId waiter, Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  {
    const StreamUse use = streams_.use(waiter);
    if (use.is_alive()) {
      stream_wait(*devices_[streams_.device_of(waiter)], use.handle(), own.event.handle());
      return;
    }
  }
  // A destroyed stream cannot carry the order on. Memory that goes back to it counts as free when its own work is
  // complete, so the host waits for the event.
  if (event_is_done(*devices_[own.device], own.event.handle())) return;
  ++host_waits_;
  event_synchronize(*devices_[own.device], own.event.handle());
}

bool DriverEvents::is_done(Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  if (!event_is_done(*devices_[own.device], own.event.handle())) return false;
  drop(ticket);
  return true;
}

void DriverEvents::wait(Ticket ticket) {
  const OwnEvent& own = events_[ticket];
  if (!event_is_done(*devices_[own.device], own.event.handle())) {
    ++host_waits_;
    event_synchronize(*devices_[own.device], own.event.handle());
  }
  drop(ticket);
}

CUstream DriverEvents::handle_of(StreamId stream) {
  if (streams_.is_alive(stream)) return streams_.handle_of(stream);
  wait_for_stream(stream);
  return nullptr;
}

void DriverEvents::wait_for_stream(StreamId stream) {
  Device& device = *devices_[streams_.device_of(stream)];
  const StreamUse use = streams_.use(stream);
  if (use.is_alive()) {
    if (stream_is_done(device, use.handle())) return;
    ++host_waits_;
    stream_synchronize(device, use.handle());
  } else if (const EventOwner* end = use.last_event()) {
    if (event_is_done(device, end->handle())) return;
    ++host_waits_;
    event_synchronize(device, end->handle());
  } else {
    ++host_waits_;
    device.synchronize();
  }
}

bool DriverEvents::can_record(StreamId stream) {
  Device& device = *devices_[streams_.device_of(stream)];
  const StreamUse use = streams_.use(stream);
  if (!use.is_alive()) {
    const EventOwner* end = use.last_event();
    return end == nullptr || event_is_done(device, end->handle());
  }
  // A capture would be spoilt, and what is captured is not running yet.
  return !stream_is_capturing(device, use.handle());
}

bool DriverEvents::is_capturing(StreamId stream) {
  const StreamUse use = streams_.use(stream);
  return use.is_alive() && stream_is_capturing(*devices_[streams_.device_of(stream)], use.handle());
}

bool DriverEvents::is_idle(StreamId stream) {
  if (!can_record(stream)) return false;
  {
    const StreamUse use = streams_.use(stream);
    if (use.is_alive()) return stream_is_done(*devices_[streams_.device_of(stream)], use.handle());
  }
  // Its last point was passed; or it ended without one, and only a wait for the device tells.
  wait_for_stream(stream);
  return true;
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
