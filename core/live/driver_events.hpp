#pragma once

// DriverEvents: the driver's own events, recorded in streams and used again and again.

#include <memory>
#include <vector>

#include "driver/event.hpp"
#include "live/stream_table.hpp"
#include "space/event_source.hpp"

namespace memlake {

class DriverEvents final : public EventSource {
 public:
  DriverEvents(std::shared_ptr<Device> device, const StreamTable& streams)
      : device_(std::move(device)), streams_(streams) {}

  Ticket record(StreamId stream, const Block& block) override;
  Ticket record_point(StreamId stream) override;
  void let_wait(StreamId waiter, Ticket ticket) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drop(Ticket ticket) override { idle_.push_back(ticket); }
  void wait_for_stream(StreamId stream) override;

  [[nodiscard]] std::uint64_t host_waits() const { return host_waits_; }

 private:
  std::shared_ptr<Device> device_;
  const StreamTable& streams_;
  std::vector<EventOwner> events_;  // by ticket
  std::vector<Ticket> idle_;
  std::uint64_t host_waits_ = 0;
};

}  // namespace memlake
