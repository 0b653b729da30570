#pragma once

// DriverHandles: the StreamHandles of a live pool, from its table of streams.

#include <optional>

#include "streams/driver_waits.hpp"
#include "streams/stream_handles.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class DriverHandles final : public StreamHandles {
 public:
  DriverHandles(StreamTable& streams, const DriverProgress& progress, DriverWaits& waits)
      : streams_(streams), progress_(progress), waits_(waits) {}

  CUstream handle_of(StreamId stream) override {
    const auto handle = usable_handle_of(stream);
    if (!handle) waits_.wait_for_stream(stream);
    return handle.value_or(nullptr);
  }
  std::optional<CUstream> usable_handle_of(StreamId stream) override {
    return streams_.is_alive(stream) ? std::optional(streams_.handle_of(stream)) : std::nullopt;
  }
  [[nodiscard]] std::size_t device_of(StreamId stream) const override { return streams_.device_of(stream); }
  [[nodiscard]] bool is_unused_for_long(StreamId stream) const override { return streams_.is_unused_for_long(stream); }
  std::uint64_t begin_naming(StreamId stream) override { return streams_.begin_naming(stream); }
  void end_naming(StreamId stream, std::uint64_t number) noexcept override {
    streams_.end_naming(stream, number, progress_.now());
  }

 private:
  StreamTable& streams_;
  const DriverProgress& progress_;
  DriverWaits& waits_;
};

}  // namespace memlake
