#pragma once

// Streams: an owner for the streams that memlake creates, and operations on any stream, also of other libraries.

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>

#include "base/ownership.hpp"
#include "driver/device.hpp"
#include "driver/event.hpp"

namespace memlake {

// cuda.h: CU_STREAM_LEGACY is another name of the default stream, CU_STREAM_PER_THREAD another stream in every thread.
inline const CUstream kLegacyStream = reinterpret_cast<CUstream>(std::uintptr_t{1});
inline const CUstream kPerThreadStream = reinterpret_cast<CUstream>(std::uintptr_t{2});

/// False for CUDA's names of default streams: null and the two above.
inline bool is_created(CUstream stream) { return reinterpret_cast<std::uintptr_t>(stream) > 2; }

/// What a pool must know of a stream that was destroyed, or that another thread may destroy. The first three change
/// under `mutex` only.
struct StreamEnd {
  /// A thread that uses the stream's handle holds it shared, so that cuStreamDestroy waits for that thread.
  std::shared_mutex mutex;
  std::atomic<bool> is_over = false;  ///< the handle is invalid
  /// The event that was recorded last: a pool can still ask whether the stream's work is complete. Null while the
  /// stream exists, or if recording failed.
  std::shared_ptr<EventOwner> event;
  std::atomic<bool> is_complete = false;  ///< a pool has waited for the end, and no work can follow it
};

/// Owns a stream; its undo is cuStreamDestroy. Queued work still runs after that.
class StreamOwner {
 public:
  /// Priority 0 is the default; lower numbers are more urgent.
  StreamOwner(std::shared_ptr<Device> device, bool is_nonblocking, int priority);
  StreamOwner(StreamOwner&&) noexcept = default;
  StreamOwner& operator=(StreamOwner&&) = delete;
  ~StreamOwner();

  /// Throws Error(closed) after close().
  CUstream handle() const;
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  /// destroy() records the last event only if this pointer is shared.
  const std::shared_ptr<StreamEnd>& end() const noexcept { return end_; }
  void close();

 private:
  void destroy();

  std::shared_ptr<Device> device_;
  CUstream handle_ = nullptr;
  std::shared_ptr<StreamEnd> end_ = std::make_shared<StreamEnd>();
  Ownership ownership_;
};

/// What the driver says about a stream.
enum class StreamState {
  usual,      ///< work that is queued runs
  capturing,  ///< work that is queued becomes a part of a graph
  unknown,    ///< no stream has this handle: it was destroyed, or never was one
};
/// Where a stream of another library works.
struct StreamHome {
  CUcontext context = nullptr;  ///< in which it was created; null if the driver cannot tell
  int device = 0;               ///< ordinal; only with a context
};
/// Error(config) if the driver knows no such stream. pre: the stream is no default stream.
StreamHome stream_home(Driver& driver, CUstream stream);
/// A number that no other stream of the process ever has; 0 if the driver cannot tell (before CUDA 12.0). Error(config)
/// if the driver knows no such stream. pre: the stream is no default stream.
std::uint64_t stream_identity(Device& device, CUstream stream);
/// Does not ask about the default stream of all threads, which cannot capture.
StreamState stream_state(Device& device, CUstream stream);
/// Error(config) if the driver knows no such stream.
bool stream_is_capturing(Device& device, CUstream stream);
/// False if the driver does not answer because of a capture.
bool stream_is_done(Device& device, CUstream stream);
void stream_synchronize(Device& device, CUstream stream);
/// Later work of `stream` waits on the device for the event's latest recording.
void stream_wait(Device& device, CUstream stream, CUevent event);

}  // namespace memlake
