#include "streams/driver_waits.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "driver/relaxed_capture.hpp"
#include "driver/result.hpp"

namespace memlake {

void DriverWaits::wait_or_throw(const HostWait& wait) const {
  if (std::ranges::find(throwing_, std::this_thread::get_id()) != throwing_.end()) throw wait;
  const RelaxedCapture relaxed(&places_.unwrapped());
  wait.wait();
}

bool DriverWaits::try_wait(const HostWait& wait) {
  try {
    wait_or_throw(wait);
  } catch (const Error& error) {
    if (is_about_capture(error)) return false;
    throw;
  }
  note_waited(wait);
  return true;
}

bool DriverWaits::wait_for_context(StreamId stream) {
  ++count_;
  if (is_refused_ || expects_captures_) return false;
  const std::size_t place = places_.place_of(stream);
  const auto wait = [device = places_.device_at(place), context = places_.context_at(place)] {
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
    if (const auto other = static_cast<StreamId>(i);
        places_.place_of(other) == place && streams_.use(other).has_ended())
      host.ended.push_back(streams_.known(other));
  return try_wait(host);
}

void DriverWaits::wait_for_event(std::size_t place, const std::shared_ptr<EventOwner>& event,
                                 std::optional<KnownStream> of) {
  if (places_.is_event_done(place, *event)) return;
  ++count_;
  const auto wait = [device = places_.device_at(place), event, is_own = places_.is_own(place)] {
    try {
      event_synchronize(*device, event->handle());
    } catch (const Error& error) {
      if (is_own || !is_about_lost_handle(error)) throw;
    }
  };
  wait_or_throw({.wait = wait, .stream = of});
}

bool DriverWaits::wait_for_stream(StreamId stream) {
  const RelaxedCapture relaxed(&places_.unwrapped());
  const StreamState state = progress_.state_of(stream);
  if (state == StreamState::capturing) return false;
  if (granted_ && *granted_ == streams_.known(stream)) return true;
  if (progress_.has_completed(stream)) return true;
  std::shared_ptr<EventOwner> event;
  {
    const StreamUse use = streams_.use(stream);
    if (state == StreamState::usual && use.is_alive()) {
      Device& device = places_.device_for(stream);
      if (stream_is_done(device, use.handle())) return true;
      event = places_.make_event(places_.place_of(stream));
      event_record(device, event->handle(), use.handle());
    } else {
      event = use.last_event();
    }
  }
  if (event == nullptr) return wait_for_context(stream);
  wait_for_event(places_.place_of(stream), event, streams_.known(stream));
  return true;
}

bool DriverWaits::wait_for_devices(const std::function<void()>& then) {
  if (is_refused_) return false;
  ++count_;
  return try_wait({.wait =
                       [devices = places_.devices()] {
                         for (const auto& device : devices) StreamOrder::synchronize_device(*device);
                       },
                   .then = then,
                   .is_for_devices = true});
}

void DriverWaits::prepare_device_wait() {
  if (!has_waited_for_devices_ && progress_.is_any_busy()) static_cast<void>(wait_for_devices({}));
}

void DriverWaits::begin_throwing(std::optional<KnownStream> granted, bool is_refused, bool has_waited_for_devices) {
  throwing_.push_back(std::this_thread::get_id());
  granted_ = granted;
  is_refused_ = is_refused;
  has_waited_for_devices_ = has_waited_for_devices;
}

void DriverWaits::end_throwing() {
  throwing_.erase(std::ranges::find(throwing_, std::this_thread::get_id()));
  end_grant();
  is_refused_ = false;
}

void DriverWaits::note_waited(const HostWait& wait) {
  if (wait.then) wait.then();
  for (const KnownStream& ended : wait.ended)
    if (streams_.known(ended.number) == ended) streams_.note_complete(ended.number);
}

}  // namespace memlake
