#include "driver/stream_order.hpp"

#include <algorithm>

#include "driver/event.hpp"
#include "driver/library.hpp"
#include "driver/stream.hpp"

namespace memlake {

namespace {

/// Before any lock: in a forked child somebody who is not there may hold it.
StreamOrder& order_of(Device& device) {
  device.library().require_this_process();
  return device.library().order();
}

}  // namespace

std::optional<StreamOrder::Stream> StreamOrder::name_of(const Device& device, CUstream handle) {
  if (handle == kPerThreadStream) return std::nullopt;
  return Stream{device.ordinal(), handle == kLegacyStream ? nullptr : handle};
}

void StreamOrder::add(Known& known, Stream stream, Tick tick) {
  Tick& latest = known[stream];
  latest = std::max(latest, tick);
}

void StreamOrder::add(Known& known, const Known& more) {
  for (const auto& [stream, tick] : more) add(known, stream, tick);
}

bool StreamOrder::is_behind(Stream waiter, Stream stream, Tick tick) const {
  const std::lock_guard lock(mutex_);
  const auto known = behind_.find(waiter);
  if (known == behind_.end()) return false;
  const auto latest = known->second.find(stream);
  return latest != known->second.end() && tick < latest->second;
}

bool StreamOrder::was_waited_for(Stream stream, Tick tick) const {
  const std::lock_guard lock(mutex_);
  const auto latest = done_.find(stream);
  return latest != done_.end() && tick < latest->second;
}

bool StreamOrder::was_waited_for(int device, Tick tick) const {
  const std::lock_guard lock(mutex_);
  const auto latest = device_done_.find(device);
  return latest != device_done_.end() && tick < latest->second;
}

void StreamOrder::record(Device& device, CUevent event, CUstream stream) {
  StreamOrder& order = order_of(device);
  // Held over the driver's call, which does not wait: of two threads that record one event, the later call must be the
  // one that is remembered.
  const std::lock_guard lock(order.mutex_);
  const auto on = name_of(device, stream);
  const Tick tick = ++order.tick_;
  event_record(device, event, stream);
  Known known;
  if (on) {
    if (const auto earlier = order.behind_.find(*on); earlier != order.behind_.end()) known = earlier->second;
    add(known, *on, tick);
  }
  order.recorded_[event] = std::move(known);
}

void StreamOrder::wait(Device& device, CUstream waiter, CUevent event) {
  StreamOrder& order = order_of(device);
  const std::lock_guard lock(order.mutex_);  // as in record()
  stream_wait(device, waiter, event);
  const auto on = name_of(device, waiter);
  const auto known = order.recorded_.find(event);
  if (on && known != order.recorded_.end()) add(order.behind_[*on], known->second);
}

StreamOrder::Known StreamOrder::before(const Device& device, CUstream stream) {
  const auto on = name_of(device, stream);
  Known known;
  if (!on) return known;
  const std::lock_guard lock(mutex_);
  if (const auto earlier = behind_.find(*on); earlier != behind_.end()) known = earlier->second;
  add(known, *on, ++tick_);
  return known;
}

void StreamOrder::synchronize_stream(Device& device, CUstream stream) {
  StreamOrder& order = order_of(device);
  // Before the wait: what the stream is told to wait for meanwhile, by another thread, is not covered.
  const Known known = order.before(device, stream);
  stream_synchronize(device, stream);
  const std::lock_guard lock(order.mutex_);
  add(order.done_, known);
}

bool StreamOrder::ask_stream(Device& device, CUstream stream) {
  StreamOrder& order = order_of(device);
  const Known known = order.before(device, stream);
  if (!stream_is_done(device, stream)) return false;
  const std::lock_guard lock(order.mutex_);
  add(order.done_, known);
  return true;
}

void StreamOrder::synchronize_event(Device& device, CUevent event) {
  StreamOrder& order = order_of(device);
  const auto known = [&]() -> Known {
    const auto recorded = order.recorded_.find(event);
    return recorded == order.recorded_.end() ? Known{} : recorded->second;
  };
  Known before;
  {
    const std::lock_guard lock(order.mutex_);
    before = known();
  }
  event_synchronize(device, event);
  const std::lock_guard lock(order.mutex_);
  // If another thread has recorded it anew meanwhile, it is not known which recording was waited for.
  if (known() == before) add(order.done_, before);
}

void StreamOrder::synchronize_device(Device& device) {
  StreamOrder& order = order_of(device);
  const Tick tick = ++order.tick_;
  device.synchronize();
  const std::lock_guard lock(order.mutex_);
  Tick& latest = order.device_done_[device.ordinal()];
  latest = std::max(latest, tick);
}

void StreamOrder::forget(CUevent event) {
  const std::lock_guard lock(mutex_);
  recorded_.erase(event);
}

void StreamOrder::forget(Stream stream) {
  const std::lock_guard lock(mutex_);
  behind_.erase(stream);
  done_.erase(stream);
  for (auto& [other, known] : behind_) known.erase(stream);
  for (auto& [event, known] : recorded_) known.erase(stream);
}

}  // namespace memlake
