#include "driver/program_wait.hpp"

#include <chrono>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "driver/event.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"
#include "driver/stream.hpp"
#include "driver/stream_order.hpp"

namespace memlake {
namespace {

// A wait that can be interrupted needs a thread, which costs more than a short wait takes. So long the caller asks
// first.
constexpr std::chrono::microseconds kAsking{200};

template <class IsDone>
bool is_soon(IsDone&& is_done) {
  const auto end = std::chrono::steady_clock::now() + kAsking;
  do {
    if (is_done()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// An event after all work that the stream has now; null if no event can be recorded in it.
std::shared_ptr<EventOwner> point_of(const std::shared_ptr<Device>& device, CUstream stream) {
  try {
    if (stream_state(*device, stream) != StreamState::usual) return nullptr;
    auto event = std::make_shared<EventOwner>(device, nullptr);
    StreamOrder::record(*device, event->handle(), stream);
    return event;
  } catch (const Error& error) {
    // A stream of another context than the primary one takes only events of its own context.
    if (!is_about_lost_handle(error)) throw;
    return nullptr;
  }
}

}  // namespace

void wait_for_stream(const std::shared_ptr<Device>& device, CUstream stream) {
  if (InterruptScope::current() != nullptr && !is_soon([&] { return stream_is_done(*device, stream); })) {
    // The stream may be destroyed after an interrupt, so the wait is for an event of its own. The event is recorded by
    // this thread: the handle of the per-thread default stream means another stream in another thread.
    if (const auto event = point_of(device, stream))
      return wait_interruptibly([device, event] { StreamOrder::synchronize_event(*device, event->handle()); });
  }
  StreamOrder::synchronize_stream(*device, stream);
}

void wait_for_event(const std::shared_ptr<Device>& device, CUevent event) {
  if (InterruptScope::current() == nullptr || is_soon([&] { return event_is_done(*device, event); }))
    return StreamOrder::synchronize_event(*device, event);
  wait_interruptibly([device, event] { StreamOrder::synchronize_event(*device, event); });
}

void wait_for_device(const std::shared_ptr<Device>& device) {
  wait_interruptibly([device] { StreamOrder::synchronize_device(*device); });
}

}  // namespace memlake
