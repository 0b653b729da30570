#pragma once

// StreamOrder: the order that the program has set up between its streams: which recorded events a stream waits for, and
// which work the host has waited for. One per driver library. It knows only calls that go through memlake. Other
// libraries also record, wait and synchronise, so two streams may be ordered although StreamOrder does not know it.
//
// Another library must not record an event of memlake's again: StreamOrder would still rely on the old recording.
//
// Every recording and every host wait gets a new tick before the driver is called. So a free that read an earlier tick
// happened before that call.

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "driver/device.hpp"

namespace memlake {

class StreamOrder {
 public:
  using Tick = std::uint64_t;

  /// A stream by the ordinal of its device and its handle; null: the default stream.
  struct Stream {
    int device;
    CUstream handle;
    auto operator<=>(const Stream&) const = default;
  };

  StreamOrder() = default;
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  /// The current tick. A pool stores it with a free and asks later which streams are ordered behind that free.
  [[nodiscard]] const std::atomic<Tick>& ticks() const noexcept { return tick_; }

  /// Whether later work of `waiter` runs after all work that was queued on `stream` up to the tick.
  [[nodiscard]] bool is_behind(Stream waiter, Stream stream, Tick tick) const;
  /// Whether the host has waited for the stream, and so for all work that was queued on it up to the tick.
  [[nodiscard]] bool was_waited_for(Stream stream, Tick tick) const;
  /// Whether the host has waited for all work that was queued in the device's primary context up to the tick.
  [[nodiscard]] bool was_waited_for(int device, Tick tick) const;

  // Each makes the driver call and stores the order that follows from it.

  static void record(Device& device, CUevent event, CUstream stream);
  static void wait(Device& device, CUstream waiter, CUevent event);
  static void synchronize_stream(Device& device, CUstream stream);
  /// Whether all work of the stream is complete.
  static bool ask_stream(Device& device, CUstream stream);
  static void synchronize_event(Device& device, CUevent event);
  static void synchronize_device(Device& device);

  /// Called when an event or a stream is destroyed, because the driver may use its handle again.
  void forget(CUevent event);
  void forget(Stream stream);

 private:
  /// For each stream a tick: work that was queued on it before that tick is complete or comes earlier.
  using Known = std::map<Stream, Tick>;

  /// std::nullopt for the per-thread default stream, whose handle means a different stream in every thread.
  static std::optional<Stream> name_of(const Device& device, CUstream handle);
  /// The work that is complete when all work is that the stream has now.
  Known before(const Device& device, CUstream stream);
  static void add(Known& known, Stream stream, Tick tick);
  static void add(Known& known, const Known& more);

  mutable std::mutex mutex_;  // guards the maps
  std::atomic<Tick> tick_{1};
  std::map<CUevent, Known> recorded_;  // the work that is complete when the event is
  std::map<Stream, Known> behind_;     // the work that later work of a stream waits for
  Known done_;
  std::map<int, Tick> device_done_;
};

}  // namespace memlake
