#include "streams/driver_events.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "driver/relaxed_capture.hpp"
#include "driver/result.hpp"

namespace memlake {

namespace {

// Streams of other libraries end without a last event; only a wait for their context tells whether their work is
// complete. So many of them may keep their numbers before the pool waits.
constexpr std::size_t kMostUnknownEnds = 64;
// So many unused events stay for later, at each place.
constexpr std::size_t kMostIdle = 64;

}  // namespace

StreamId DriverEvents::number_of(StreamName stream) {
  // The owner's stream may be known by its handle already; or another one was, which had the handle before.
  if (stream.owner != nullptr && streams_.has_foreign(stream.handle))
    stream.identity = stream_identity(*devices_.front(), stream.handle);
  return streams_.number_of(stream, [this](StreamId ended) { return is_complete(ended); });
}

StreamName DriverEvents::locate(CUstream created, std::uint64_t identity) {
  const StreamHome home = stream_home(devices_.front()->driver(), created);
  // What the program did with the stream that had the handle before says nothing about this one.
  if (streams_.has_foreign(created)) devices_.front()->library().order().forget({home.device, created});
  StreamName name{.handle = created, .identity = identity};
  if (home.context == nullptr) return name;  // a driver that cannot tell
  while (name.device < devices_.size() && devices_[name.device]->ordinal() != home.device) ++name.device;
  const bool is_own = name.device < devices_.size();
  if (is_own && devices_[name.device]->context() == home.context) return name;
  while (name.context < others_.size() && others_[name.context].context != home.context) ++name.context;
  if (name.context == others_.size()) {
    auto device = is_own ? devices_[name.device] : devices_.front()->library().device(home.device);
    others_.push_back({home.context, std::move(device), name.device});
    idle_.emplace_back();
  }
  ++name.context;
  return name;
}

void DriverEvents::make_room_for(const StreamName& arriving, const std::function<std::vector<bool>()>& in_use) {
  if (streams_.are_lasting()) return;
  const auto handle = reinterpret_cast<std::uintptr_t>(arriving.handle);
  forgotten_.note_arrival(arriving.identity != 0 ? arriving.identity : handle);
  const auto kept = [this] { return streams_.size() - streams_.forgotten_count(); };
  if (!forgotten_.is_look_due(kept())) return;
  const bool may_wait = forgotten_.is_wait_due(kept());
  if (!forgotten_.do_return()) {
    const std::vector<bool> is_used = in_use();
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      const auto stream = static_cast<StreamId>(i);
      // A wait for another context than the primary one is not remembered, and each of them would need its own.
      if (!streams_.may_be_forgotten(stream) || is_used[i] || streams_.context_of(stream) != 0) continue;
      if (!has_completed(stream)) {
        if (!may_wait) continue;
        ++host_waits_;
        if (!wait_for_context(stream)) break;
      }
      forgotten_.note_forgotten(streams_.identity_of(stream));
      streams_.forget(stream);
    }
  }
  forgotten_.end_look(kept(), may_wait);
  streams_.begin_period();
}

void DriverEvents::shrink() {
  for (const auto& idle : idle_)
    for (std::size_t i = kMostIdle; i < idle.size(); ++i) events_[idle[i - kMostIdle]].event.reset();
}

std::shared_ptr<EventOwner> DriverEvents::make_event(std::size_t place) const {
  const RelaxedCapture relaxed(&unwrapped());
  const CUcontext context = place < devices_.size() ? nullptr : others_[place - devices_.size()].context;
  return std::make_shared<EventOwner>(device_at(place), context);
}

bool DriverEvents::is_complete(StreamId ended) {
  if (has_completed(ended)) return true;
  if (streams_.use(ended).last_event() != nullptr || ++unknown_ends_ < kMostUnknownEnds) return false;
  unknown_ends_ = 0;
  ++host_waits_;
  return wait_for_context(ended);
}

bool DriverEvents::wait_for_context(StreamId stream) {
  if (is_refused_ || expects_captures_) return false;
  const std::size_t place = place_of(stream);
  const CUcontext context = place < devices_.size() ? nullptr : others_[place - devices_.size()].context;
  const auto wait = [device = device_at(place), context] {
    try {
      if (context == nullptr) return StreamOrder::synchronize_device(*device);
      const CurrentContext current(device->driver(), context);
      check(device->driver(), Call::cuCtxSynchronize, device->driver().cuCtxSynchronize());
    } catch (const Error& error) {
      // A context of another library that was destroyed has no work left.
      if (context == nullptr || !is_about_lost_handle(error)) throw;
    }
  };
  HostWait host{.wait = wait, .stream = streams_.known(stream)};
  for (std::size_t i = 1; i < streams_.size(); ++i)
    if (const auto other = static_cast<StreamId>(i); place_of(other) == place && streams_.use(other).has_ended())
      host.ended.push_back(streams_.known(other));
  try {
    host_wait(host);
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
  note_waited(host);
  return true;
}

EventSource::Ticket DriverEvents::take(StreamId stream) {
  const std::size_t on = place_of(stream);
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
  streams_.touch(stream, now());
}

bool DriverEvents::has_point(Ticket ticket) { return has_point(ticket, true); }

bool DriverEvents::has_point(Ticket ticket, bool may_wait) {
  const std::optional<StreamId> stream = events_[ticket].waits_for;
  if (!stream) return true;
  if (!try_record(*stream, ticket, may_wait)) return false;
  events_[ticket].waits_for.reset();
  return true;
}

template <class Work>
StreamState DriverEvents::state_of(StreamId stream, Work&& if_usual) {
  StreamState state = StreamState::unknown;
  {
    const StreamUse use = streams_.use(stream);
    if (!use.is_alive()) return state;
    state = stream_state(device_for(stream), use.handle());
    if (state == StreamState::usual) if_usual(use);
  }
  if (state == StreamState::unknown) streams_.note_end(stream);
  return state;
}

StreamState DriverEvents::state_of(StreamId stream) {
  return state_of(stream, [](const StreamUse&) {});
}

bool DriverEvents::try_record(StreamId stream, Ticket ticket, bool may_wait) {
  OwnEvent& own = events_[ticket];
  try {
    bool is_recorded = false;
    const StreamState state = state_of(stream, [&](const StreamUse& use) { is_recorded = record_now(use, own); });
    if (state == StreamState::capturing) return false;
    if (is_recorded) return true;
    if (state == StreamState::usual) streams_.note_end(stream);
    // Nothing can be recorded in a stream that was destroyed or is out of reach, and its work may still be running.
    // When all of its work is complete, an event without a recording says what is true.
    if (may_wait ? !wait_for_stream(stream) : !has_completed(stream)) return false;
    own.event = nullptr;
    if (own.place < devices_.size()) {
      own.event = make_event(own.place);
    } else {  // the context may be gone with the stream
      own.event = std::make_shared<EventOwner>(device_at(own.place), nullptr);
    }
    return true;
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
}

bool DriverEvents::record_now(const StreamUse& use, OwnEvent& own) {
  Device& device = *device_at(own.place);
  for (bool is_new = own.event == nullptr;; is_new = true) {
    try {
      if (is_new) own.event = make_event(own.place);
      event_record(device, own.event->handle(), use.handle());
      return true;
    } catch (const Error& error) {
      if (!is_about_lost_handle(error)) throw;
      // The event went with a context of another library; or the stream is not what it was. A request that has nothing
      // to do with the stream must not fail because of that.
      if (is_new || own.place < devices_.size()) return false;
    }
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
      // An event of another library's context may be gone.
      if (own.place >= devices_.size() && is_event_done(own.place, *own.event)) return;
      stream_wait(device_for(waiter), use.handle(), own.event->handle());
      return;
    }
    case StreamState::unknown:
      break;
  }
  // A destroyed stream cannot carry the order on. Memory that goes back to it counts as free when its own work is
  // complete, so the host waits for the event.
  wait_for(own.place, own.event);
}

void DriverEvents::wait_for(std::size_t place, const std::shared_ptr<EventOwner>& event,
                            std::optional<KnownStream> of) {
  if (is_event_done(place, *event)) return;
  ++host_waits_;
  const auto wait = [device = device_at(place), event, is_own = place < devices_.size()] {
    try {
      event_synchronize(*device, event->handle());
    } catch (const Error& error) {
      if (is_own || !is_about_lost_handle(error)) throw;
    }
  };
  host_wait({.wait = wait, .stream = of});
}

bool DriverEvents::is_event_done(std::size_t place, const EventOwner& event) const {
  const RelaxedCapture relaxed(&unwrapped());
  try {
    return event_is_done(*device_at(place), event.handle());
  } catch (const Error& error) {
    // A context of another library that was destroyed has no work left.
    if (place < devices_.size() || !is_about_lost_handle(error)) throw;
    return true;
  }
}

void DriverEvents::host_wait(const HostWait& wait) const {
  if (std::ranges::find(throwing_, std::this_thread::get_id()) != throwing_.end()) throw wait;
  const RelaxedCapture relaxed(&unwrapped());
  wait.wait();
}

void DriverEvents::begin_throwing(std::optional<KnownStream> granted, bool is_refused, bool has_waited_for_devices) {
  throwing_.push_back(std::this_thread::get_id());
  granted_ = granted;
  is_refused_ = is_refused;
  has_waited_for_devices_ = has_waited_for_devices;
}

void DriverEvents::end_throwing() {
  throwing_.erase(std::ranges::find(throwing_, std::this_thread::get_id()));
  end_grant();
  is_refused_ = false;
}

void DriverEvents::note_waited(const HostWait& wait) {
  if (wait.then) wait.then();
  for (const KnownStream& ended : wait.ended)
    if (streams_.known(ended.number) == ended) streams_.note_complete(ended.number);
}

bool DriverEvents::is_done(Ticket ticket) {
  if (!has_point(ticket, false)) return false;
  const OwnEvent& own = events_[ticket];
  if (!is_event_done(own.place, *own.event)) return false;
  drop(ticket);
  return true;
}

void DriverEvents::wait(Ticket ticket) {
  wait_for(events_[ticket].place, events_[ticket].event);
  drop(ticket);
}

CUstream DriverEvents::handle_of(StreamId stream) {
  const auto handle = usable_handle_of(stream);
  if (!handle) wait_for_stream(stream);
  return handle.value_or(nullptr);
}

std::optional<CUstream> DriverEvents::usable_handle_of(StreamId stream) {
  return streams_.is_alive(stream) ? std::optional(streams_.handle_of(stream)) : std::nullopt;
}

bool DriverEvents::wait_for_stream(StreamId stream) {
  const RelaxedCapture relaxed(&unwrapped());
  const StreamState state = state_of(stream);
  if (state == StreamState::capturing) return false;
  if (granted_ && *granted_ == streams_.known(stream)) return true;
  if (has_completed(stream)) return true;
  std::shared_ptr<EventOwner> event;
  {
    const StreamUse use = streams_.use(stream);
    if (state == StreamState::usual && use.is_alive()) {
      Device& device = device_for(stream);
      if (stream_is_done(device, use.handle())) return true;
      event = make_event(place_of(stream));
      event_record(device, event->handle(), use.handle());
    } else {
      event = use.last_event();
    }
  }
  if (event == nullptr) {
    ++host_waits_;
    return wait_for_context(stream);
  }
  wait_for(place_of(stream), event, streams_.known(stream));
  return true;
}

bool DriverEvents::wait_for_devices(const std::function<void()>& then) {
  if (is_refused_) return false;
  const HostWait host{.wait =
                          [devices = devices_] {
                            for (const auto& device : devices) StreamOrder::synchronize_device(*device);
                          },
                      .then = then,
                      .is_for_devices = true};
  ++host_waits_;
  try {
    host_wait(host);
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
  note_waited(host);
  return true;
}

void DriverEvents::prepare_device_wait() {
  if (!has_waited_for_devices_ && is_any_busy()) static_cast<void>(wait_for_devices({}));
}

bool DriverEvents::has_completed(StreamId stream) const {
  const StreamUse use = streams_.use(stream);
  if (use.is_complete()) return true;
  if (use.is_alive()) return false;
  if (was_context_waited_for(stream, streams_.touched_at(stream))) return true;
  const auto& last = use.last_event();
  if (!use.has_ended() || last == nullptr) return false;
  const RelaxedCapture relaxed(&unwrapped());
  return event_is_done(device_for(stream), last->handle());
}

bool DriverEvents::was_context_waited_for(StreamId stream, Tick tick) const {
  return streams_.context_of(stream) == 0 && order().was_waited_for(device_for(stream).ordinal(), tick);
}

bool DriverEvents::can_record(StreamId stream) {
  // A capture would be spoilt, and what is captured is not running yet.
  if (const StreamState state = state_of(stream); state != StreamState::unknown) return state == StreamState::usual;
  return has_completed(stream);
}

bool DriverEvents::is_capturing(StreamId stream) { return state_of(stream) == StreamState::capturing; }

bool DriverEvents::is_idle(StreamId stream) {
  const RelaxedCapture relaxed(&unwrapped());
  if (!can_record(stream)) return false;
  {
    const StreamUse use = streams_.use(stream);
    if (use.is_alive()) return stream_is_done(device_for(stream), use.handle());
  }
  return has_completed(stream);
}

bool DriverEvents::is_busy(StreamId stream) {
  const StreamState state = state_of(stream);
  if (state == StreamState::capturing) return false;  // captured work does not run
  if (has_completed(stream)) return false;
  const StreamUse use = streams_.use(stream);
  if (state == StreamState::usual && use.is_alive()) return !stream_is_done(device_for(stream), use.handle());
  return use.is_out_of_reach() || use.last_event() != nullptr;
}

bool DriverEvents::is_any_busy() {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (is_busy(static_cast<StreamId>(i))) return true;
  return false;
}

void DriverEvents::look_at_ends() {
  for (std::size_t i = 1; i < streams_.size(); ++i)
    if (const auto stream = static_cast<StreamId>(i); streams_.has_ended(stream) && has_completed(stream))
      streams_.note_complete(stream);
}

bool DriverEvents::has_passed_all(StreamId stream) {
  const RelaxedCapture relaxed(&unwrapped());
  bool is_done = false;
  state_of(stream, [&](const StreamUse& use) { is_done = StreamOrder::ask_stream(device_for(stream), use.handle()); });
  return is_done;
}

std::optional<StreamOrder::Stream> DriverEvents::name_of(StreamId stream) const {
  if (!streams_.is_alive(stream)) return std::nullopt;
  return StreamOrder::Stream{device_for(stream).ordinal(), streams_.handle_of(stream)};
}

bool DriverEvents::is_behind(StreamId waiter, StreamId stream, Tick tick) const {
  const auto later = name_of(waiter);
  const auto earlier = name_of(stream);
  return later && earlier && order().is_behind(*later, *earlier, tick);
}

bool DriverEvents::was_waited_for(StreamId stream, Tick tick) const {
  if (streams_.use(stream).is_complete() || was_context_waited_for(stream, tick)) return true;
  const auto name = name_of(stream);
  return name && order().was_waited_for(*name, tick);
}

}  // namespace memlake
