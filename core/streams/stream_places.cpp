#include "streams/stream_places.hpp"

#include "base/error.hpp"
#include "driver/relaxed_capture.hpp"
#include "driver/result.hpp"

namespace memlake {

std::shared_ptr<EventOwner> StreamPlaces::make_event(std::size_t place) const {
  const RelaxedCapture relaxed(&unwrapped());
  return std::make_shared<EventOwner>(device_at(place), context_at(place));
}

bool StreamPlaces::is_event_done(std::size_t place, const EventOwner& event) const {
  const RelaxedCapture relaxed(&unwrapped());
  try {
    return event_is_done(*device_at(place), event.handle());
  } catch (const Error& error) {
    // A context of another library that was destroyed has no work left.
    if (is_own(place) || !is_about_lost_handle(error)) throw;
    return true;
  }
}

StreamName StreamPlaces::locate(CUstream created, std::uint64_t identity) {
  const StreamHome home = stream_home(devices_.front()->driver(), created);
  // What the program did with the stream that had the handle before says nothing about this one.
  if (streams_.has_foreign(created)) order().forget({home.device, created});
  StreamName name{.handle = created, .identity = identity};
  if (home.context == nullptr) return name;  // a driver that cannot tell
  while (name.device < devices_.size() && devices_[name.device]->ordinal() != home.device) ++name.device;
  const bool is_of_pool = name.device < devices_.size();
  if (is_of_pool && devices_[name.device]->context() == home.context) return name;
  while (name.context < others_.size() && others_[name.context].context != home.context) ++name.context;
  if (name.context == others_.size()) {
    auto device = is_of_pool ? devices_[name.device] : devices_.front()->library().device(home.device);
    others_.push_back({home.context, std::move(device)});
  }
  ++name.context;
  return name;
}

}  // namespace memlake
