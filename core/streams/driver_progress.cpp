#include "streams/driver_progress.hpp"

#include "driver/relaxed_capture.hpp"

namespace memlake {

StreamState DriverProgress::state_of(StreamId stream) {
  return state_of(stream, [](const StreamUse&) {});
}

bool DriverProgress::has_completed(StreamId stream) const {
  const StreamUse use = streams_.use(stream);
  if (use.is_complete()) return true;
  if (use.is_alive()) return false;
  if (was_context_waited_for(stream, streams_.touched_at(stream))) return true;
  const auto& last = use.last_event();
  if (!use.has_ended() || last == nullptr) return false;
  const RelaxedCapture relaxed(&places_.unwrapped());
  return event_is_done(places_.device_for(stream), last->handle());
}

bool DriverProgress::was_context_waited_for(StreamId stream, Tick tick) const {
  return streams_.context_of(stream) == 0 && places_.order().was_waited_for(places_.device_for(stream).ordinal(), tick);
}

bool DriverProgress::can_record(StreamId stream) {
  // A capture would be spoilt, and what is captured is not running yet.
  if (const StreamState state = state_of(stream); state != StreamState::unknown) return state == StreamState::usual;
  return has_completed(stream);
}

bool DriverProgress::is_capturing(StreamId stream) { return state_of(stream) == StreamState::capturing; }

bool DriverProgress::is_idle(StreamId stream) {
  const RelaxedCapture relaxed(&places_.unwrapped());
  if (!can_record(stream)) return false;
  {
    const StreamUse use = streams_.use(stream);
    if (use.is_alive()) return stream_is_done(places_.device_for(stream), use.handle());
  }
  return has_completed(stream);
}

bool DriverProgress::is_busy(StreamId stream) {
  const StreamState state = state_of(stream);
  if (state == StreamState::capturing) return false;  // captured work does not run
  if (has_completed(stream)) return false;
  const StreamUse use = streams_.use(stream);
  if (state == StreamState::usual && use.is_alive()) return !stream_is_done(places_.device_for(stream), use.handle());
  return use.is_out_of_reach() || use.last_event() != nullptr;
}

bool DriverProgress::is_any_busy() {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (is_busy(static_cast<StreamId>(i))) return true;
  return false;
}

void DriverProgress::find_complete_ends() {
  for (std::size_t i = 1; i < streams_.size(); ++i)
    if (const auto stream = static_cast<StreamId>(i); streams_.has_ended(stream) && has_completed(stream))
      streams_.note_complete(stream);
}

bool DriverProgress::has_passed_all(StreamId stream) {
  const RelaxedCapture relaxed(&places_.unwrapped());
  bool is_done = false;
  state_of(stream,
           [&](const StreamUse& use) { is_done = StreamOrder::ask_stream(places_.device_for(stream), use.handle()); });
  return is_done;
}

std::optional<StreamOrder::Stream> DriverProgress::name_of(StreamId stream) const {
  if (!streams_.is_alive(stream)) return std::nullopt;
  return StreamOrder::Stream{places_.device_for(stream).ordinal(), streams_.handle_of(stream)};
}

bool DriverProgress::is_behind(StreamId waiter, StreamId stream, Tick tick) const {
  const auto later = name_of(waiter);
  const auto earlier = name_of(stream);
  return later && earlier && places_.order().is_behind(*later, *earlier, tick);
}

bool DriverProgress::was_waited_for(StreamId stream, Tick tick) const {
  if (streams_.use(stream).is_complete() || was_context_waited_for(stream, tick)) return true;
  const auto name = name_of(stream);
  return name && places_.order().was_waited_for(*name, tick);
}

}  // namespace memlake
