#pragma once

// DriverEvents: an EventSource that records CUDA events in streams and reuses them. An event belongs to a device and is
// recorded in that device's streams; any stream may wait for it.

#include <memory>
#include <optional>
#include <vector>

#include "driver/event.hpp"
#include "driver/library.hpp"
#include "streams/event_source.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class DriverEvents final : public EventSource {
 public:
  DriverEvents(std::vector<std::shared_ptr<Device>> devices, StreamTable& streams)
      : devices_(std::move(devices)), streams_(streams), idle_(devices_.size()) {
    ticks_ = &devices_.front()->library().order().ticks();
  }

  Ticket record(StreamId stream, const Block& block) override;
  Ticket record_point(StreamId stream) override;
  Ticket record_later(StreamId stream, const Block& block) override;
  bool has_point(Ticket ticket) override;
  void let_wait(StreamId waiter, Ticket ticket) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drop(Ticket ticket) override {
    events_[ticket].waits_for.reset();
    idle_[events_[ticket].device].push_back(ticket);
  }
  CUstream handle_of(StreamId stream) override;
  [[nodiscard]] std::size_t device_of(StreamId stream) const override { return streams_.device_of(stream); }
  bool wait_for_stream(StreamId stream) override;
  bool can_record(StreamId stream) override;
  bool is_capturing(StreamId stream) override;
  bool is_idle(StreamId stream) override;
  [[nodiscard]] Driver* driver() override { return &devices_.front()->library().unwrapped(); }
  [[nodiscard]] bool is_behind(StreamId waiter, StreamId stream, Tick tick) const override;
  [[nodiscard]] bool was_waited_for(StreamId stream, Tick tick) const override;

  [[nodiscard]] std::uint64_t host_waits() const { return host_waits_; }

 private:
  struct OwnEvent {
    std::optional<EventOwner> event;  ///< made when it is recorded for the first time
    std::size_t device;
    std::optional<StreamId> waits_for = {};  ///< the stream in which it is to be recorded
  };

  /// A ticket without a point.
  Ticket take(StreamId stream);
  /// False if the stream captures a graph.
  bool try_record(StreamId stream, Ticket ticket);
  /// What the driver says about a stream that this thread can use; notes the end of one that the driver does not know.
  StreamState state_of(StreamId stream);
  /// The stream's name in StreamOrder; std::nullopt after it was destroyed.
  [[nodiscard]] std::optional<StreamOrder::Stream> name_of(StreamId stream) const;
  [[nodiscard]] const StreamOrder& order() const { return devices_.front()->library().order(); }

  std::vector<std::shared_ptr<Device>> devices_;
  StreamTable& streams_;
  std::vector<OwnEvent> events_;           // by ticket
  std::vector<std::vector<Ticket>> idle_;  // by device
  std::uint64_t host_waits_ = 0;
};

}  // namespace memlake
