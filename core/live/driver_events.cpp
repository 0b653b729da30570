#include "live/driver_events.hpp"

namespace memlake {

EventSource::Ticket DriverEvents::record(StreamId stream, const Block&) { return record_point(stream); }

void DriverEvents::let_wait(StreamId waiter, Ticket ticket) {
  // A stream that was destroyed gets no more work, so nothing of it can come too early.
  if (streams_.is_alive(waiter)) stream_wait(*device_, streams_.handle_of(waiter), events_[ticket].handle());
}

EventSource::Ticket DriverEvents::record_point(StreamId stream) {
  if (!streams_.is_alive(stream)) {
    // Nothing can be recorded in a stream that was destroyed; its work may still be running.
    ++host_waits_;
    device_->synchronize();
  }
  if (idle_.empty()) {
    events_.emplace_back(device_, false);
    idle_.push_back(events_.size() - 1);
  }
  const Ticket ticket = idle_.back();
  // An event of the default stream for a destroyed one: after the wait everything is behind it.
  const CUstream handle = streams_.is_alive(stream) ? streams_.handle_of(stream) : nullptr;
  event_record(*device_, events_[ticket].handle(), handle);
  idle_.pop_back();
  return ticket;
}

bool DriverEvents::is_done(Ticket ticket) {
  if (!event_is_done(*device_, events_[ticket].handle())) return false;
  idle_.push_back(ticket);
  return true;
}

void DriverEvents::wait(Ticket ticket) {
  if (!event_is_done(*device_, events_[ticket].handle())) {
    ++host_waits_;
    event_synchronize(*device_, events_[ticket].handle());
  }
  idle_.push_back(ticket);
}

void DriverEvents::wait_for_stream(StreamId stream) {
  if (!streams_.is_alive(stream)) {
    ++host_waits_;
    device_->synchronize();
    return;
  }
  if (stream_is_done(*device_, streams_.handle_of(stream))) return;
  ++host_waits_;
  stream_synchronize(*device_, streams_.handle_of(stream));
}

}  // namespace memlake
