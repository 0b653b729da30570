#pragma once

// StreamHandles: the streams behind the numbers that the blocks of a pool store.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "blocks/block.hpp"
#include "driver/driver.hpp"

namespace memlake {

class StreamHandles {
 public:
  StreamHandles() = default;
  StreamHandles(const StreamHandles&) = delete;
  StreamHandles& operator=(const StreamHandles&) = delete;
  virtual ~StreamHandles() = default;

  /// The stream's handle for driver calls. If the stream was destroyed or is out of reach: the default stream, after a
  /// wait for the work of that stream.
  virtual CUstream handle_of(StreamId stream) = 0;
  /// The stream's handle, without a wait; std::nullopt if the stream was destroyed or is out of reach.
  virtual std::optional<CUstream> usable_handle_of(StreamId stream) { return handle_of(stream); }
  /// The number of the device that the stream works on.
  [[nodiscard]] virtual std::size_t device_of(StreamId) const { return 0; }
  /// Whether many requests came since one named the stream.
  [[nodiscard]] virtual bool is_unused_for_long(StreamId) const { return false; }

  // A stream of another library can be used while a call of the program names it; see Naming.

  /// Returns a number for end_naming().
  virtual std::uint64_t begin_naming(StreamId) { return 0; }
  virtual void end_naming(StreamId, std::uint64_t) noexcept {}
};

/// While it lives, a call of the program names the stream: the program guarantees that the stream exists. pre: the
/// pool's lock is held when it is made and when it is destroyed.
class Naming {
 public:
  Naming(StreamHandles& handles, StreamId stream)
      : handles_(&handles), stream_(stream), generation_(handles.begin_naming(stream)) {}
  Naming(Naming&& other) noexcept
      : handles_(std::exchange(other.handles_, nullptr)), stream_(other.stream_), generation_(other.generation_) {}
  Naming& operator=(Naming&&) = delete;
  ~Naming() {
    if (handles_ != nullptr) handles_->end_naming(stream_, generation_);
  }

 private:
  StreamHandles* handles_;
  StreamId stream_;
  std::uint64_t generation_;
};

}  // namespace memlake
