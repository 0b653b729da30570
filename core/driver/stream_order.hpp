#pragma once

// StreamOrder: what the program has said about the order of its streams: which recording a stream waits for, and what
// the host has waited for. One per driver library. Only what goes through memlake is known; what other libraries
// record, wait for and synchronise is invisible, so an order that is not known may exist all the same.
//
// One thing must not be: that another library records an event of memlake's anew. Its old recording would be believed.
//
// Time is counted in ticks. Every recording and every wait of the host gets a new one before the driver is called; so
// whatever read an earlier tick happened before that call.

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

  /// The tick of what happens now; for whoever wants to ask later what came behind it.
  [[nodiscard]] const std::atomic<Tick>& ticks() const noexcept { return tick_; }

  /// Whether later work of `waiter` comes behind all that `stream` had been given at the tick.
  [[nodiscard]] bool is_behind(Stream waiter, Stream stream, Tick tick) const;
  /// Whether the host has waited for all that the stream had been given at the tick.
  [[nodiscard]] bool was_waited_for(Stream stream, Tick tick) const;

  // Each makes the driver's call and remembers what it means.

  static void record(Device& device, CUevent event, CUstream stream);
  static void wait(Device& device, CUstream waiter, CUevent event);
  static void synchronize_stream(Device& device, CUstream stream);
  static void synchronize_event(Device& device, CUevent event);
  static void synchronize_device(Device& device);

  /// The handle may come to stand for another event or stream.
  void forget(CUevent event);
  void forget(Stream stream);

 private:
  /// For each stream the tick before which everything is over, or comes earlier.
  using Known = std::map<Stream, Tick>;

  /// Nothing for a stream that one name cannot tell.
  static std::optional<Stream> name_of(const Device& device, CUstream handle);
  static void add(Known& known, Stream stream, Tick tick);
  static void add(Known& known, const Known& more);

  mutable std::mutex mutex_;  // guards the maps
  std::atomic<Tick> tick_{1};
  std::map<CUevent, Known> recorded_;  // what is over when the event is
  std::map<Stream, Known> behind_;     // what later work of a stream comes behind
  Known done_;
  std::map<int, Tick> device_done_;
};

}  // namespace memlake
