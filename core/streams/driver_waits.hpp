#pragma once

// DriverWaits: the StreamWaits of a live pool. A thread that can begin its operation anew does not wait with the pool's
// lock: between begin_throwing() and end_throwing() a wait throws HostWait instead.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "streams/driver_progress.hpp"
#include "streams/host_wait.hpp"
#include "streams/stream_places.hpp"
#include "streams/stream_waits.hpp"

namespace memlake {

class DriverWaits final : public StreamWaits {
 public:
  DriverWaits(StreamTable& streams, const StreamPlaces& places, DriverProgress& progress)
      : streams_(streams), places_(places), progress_(progress) {}

  bool wait_for_stream(StreamId stream) override;
  bool wait_for_devices(const std::function<void()>& then) override;
  void prepare_device_wait() override;
  /// The host waits for all work of the stream's context, which covers streams that have ended. False if a capture
  /// forbids that.
  bool wait_for_context(StreamId stream);
  /// Waits if the event is not complete. `of`: all work of this stream is complete then.
  void wait_for_event(std::size_t place, const std::shared_ptr<EventOwner>& event, std::optional<KnownStream> of = {});

  /// From now on a wait of the calling thread throws HostWait instead. `granted`: a stream for which the thread has
  /// waited; no memory became free on it since then. `is_refused`: a capture kept the thread from waiting for a device,
  /// so it waits for none now. `has_waited_for_devices`: within its operation, so that prepare_device_wait() does not
  /// wait again.
  void begin_throwing(std::optional<KnownStream> granted, bool is_refused, bool has_waited_for_devices);
  void end_throwing();
  /// The thread unlocks the pool inside its operation: memory may become free meanwhile.
  void end_grant() noexcept {
    granted_.reset();
    has_waited_for_devices_ = false;
  }
  /// The caller has waited. pre: the lock is held again.
  void note_waited(const HostWait& wait);
  /// Whether requests go to a graph pool, so that some stream may be capturing. Until that is over, no thread waits for
  /// a whole context: CUDA forbids that during a capture, and may end the capture.
  void expect_captures(bool are_expected) noexcept { expects_captures_ = are_expected; }
  /// How often the host had to wait.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  void wait_or_throw(const HostWait& wait) const;
  /// Waits as wait_or_throw() does, then notes the wait; false if a capture forbids it.
  bool try_wait(const HostWait& wait);

  StreamTable& streams_;
  const StreamPlaces& places_;
  DriverProgress& progress_;
  std::vector<std::thread::id> throwing_;  // threads between begin_throwing() and end_throwing()
  std::optional<KnownStream> granted_;
  bool is_refused_ = false;              // see begin_throwing()
  bool has_waited_for_devices_ = false;  // see begin_throwing()
  bool expects_captures_ = false;
  std::uint64_t count_ = 0;
};

}  // namespace memlake
