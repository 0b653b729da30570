#pragma once

// TraceEvents: the EventSource of a replay. No device work runs in a replay, so the trace or a rule decides when an
// event is complete.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/stream.hpp"
#include "streams/event_source.hpp"

namespace memlake {

enum class EventMode {
  immediate,  ///< complete when first asked for
  recorded,   ///< pending until the trace says that the freed allocation's event is done, or that the device was
              ///< synchronised
  lag,        ///< complete a number of rows later, as if the host ran ahead of the device
};

class TraceEvents final : public EventSource {
 public:
  /// `device`: where handle_of() creates streams, for a policy that passes streams to the driver.
  TraceEvents(EventMode mode, std::uint64_t lag, std::shared_ptr<Device> device = nullptr)
      : EventSource(streams_, complete_, counted_, nullptr), mode_(mode), lag_(lag), streams_(std::move(device)) {}

  Ticket record(StreamId stream, const Block& block) override;
  Ticket record_point(StreamId stream) override;
  void let_wait(StreamId waiter, Ticket ticket) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drop(Ticket) override {}

  // Called by the replay.
  void set_row(std::uint64_t row) { row_ = row; }
  void freeing(std::uint32_t id) { id_ = id; }
  void done(std::uint32_t id);
  void all_done() { done_before_ = points_.size(); }

  std::uint64_t records = 0;
  std::uint64_t queries = 0;
  std::uint64_t synchronisations = 0;
  std::uint64_t stream_waits = 0;  ///< waits on the device
  std::uint64_t host_waits = 0;    ///< number of times the host had to wait for an event that was not complete

 private:
  /// A stream of the device for each stream of the trace. No device work ever runs on it.
  class Handles final : public StreamHandles {
   public:
    explicit Handles(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    CUstream handle_of(StreamId stream) override;

   private:
    std::shared_ptr<Device> device_;
    std::unordered_map<StreamId, StreamOwner> streams_;  // created by handle_of()
  };
  /// All work of every stream is complete.
  class Progress final : public StreamProgress {
   public:
    bool is_idle(StreamId) override { return true; }
  };
  /// A wait for a stream only counts.
  class Waits final : public StreamWaits {
   public:
    explicit Waits(TraceEvents& events) : events_(events) {}
    bool wait_for_stream(StreamId) override {
      ++events_.synchronisations;
      return true;
    }

   private:
    TraceEvents& events_;
  };

  struct Point {
    std::uint64_t row;
    bool is_done;
  };

  [[nodiscard]] bool is_complete(Ticket ticket) const;

  EventMode mode_;
  std::uint64_t lag_;
  std::uint64_t row_ = 0;
  std::uint32_t id_ = 0;
  Handles streams_;
  Progress complete_;
  Waits counted_{*this};
  std::vector<Point> points_;
  std::unordered_map<std::uint32_t, std::vector<Ticket>> of_id_;  // only in `recorded`
  std::size_t done_before_ = 0;                                   // all points before this one are done
};

}  // namespace memlake
