#pragma once

// DriverEvents: an EventSource that records CUDA events in streams and reuses them. An event belongs to a context and
// is recorded in the streams of that context; any stream may wait for it.

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "driver/event.hpp"
#include "driver/library.hpp"
#include "streams/event_source.hpp"
#include "streams/forgotten_streams.hpp"
#include "streams/host_wait.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class DriverEvents final : public EventSource {
 public:
  DriverEvents(std::vector<std::shared_ptr<Device>> devices, StreamTable& streams)
      : devices_(std::move(devices)), streams_(streams), idle_(devices_.size()) {
    ticks_ = &devices_.front()->library().order().ticks();
  }

  /// The stream's number in the pool; see StreamTable. Asks the driver about streams that are new.
  StreamId number_of(StreamName stream);
  /// The name of a created stream of another library: with the context and the device that the driver tells. A device
  /// that is not one of the pool has the number of devices.
  StreamName locate(CUstream created, std::uint64_t identity);
  /// To be called before a stream of another library gets a number: forgets others if the table has grown. `in_use`
  /// returns for each number whether memory of the pool depends on its stream.
  void make_room_for(const StreamName& arriving, const std::function<std::vector<bool>()>& in_use);
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
  /// Whether requests go to a graph pool, so that some stream may be capturing. Until that is over, no thread waits for
  /// a whole context: CUDA forbids that during a capture, and may end the capture.
  void expect_captures(bool are_expected) noexcept { expects_captures_ = are_expected; }
  /// The caller has waited. pre: the lock is held again.
  void note_waited(const HostWait& wait);
  /// Destroys events that no ticket uses, if there are many.
  void shrink();

  std::uint64_t begin_naming(StreamId stream) override { return streams_.begin_naming(stream); }
  void end_naming(StreamId stream, std::uint64_t number) noexcept override {
    streams_.end_naming(stream, number, now());
  }
  Ticket record(StreamId stream, const Block& block) override;
  Ticket record_point(StreamId stream) override;
  Ticket record_later(StreamId stream, const Block& block) override;
  bool has_point(Ticket ticket) override;
  void look_at_ends() override;
  [[nodiscard]] bool is_unused_for_long(StreamId stream) const override { return streams_.is_unused_for_long(stream); }
  bool has_passed_all(StreamId stream) override;
  void let_wait(StreamId waiter, Ticket ticket) override;
  bool is_done(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void drop(Ticket ticket) override {
    events_[ticket].waits_for.reset();
    idle_[events_[ticket].place].push_back(ticket);
  }
  CUstream handle_of(StreamId stream) override;
  std::optional<CUstream> usable_handle_of(StreamId stream) override;
  [[nodiscard]] std::size_t device_of(StreamId stream) const override { return streams_.device_of(stream); }
  bool wait_for_stream(StreamId stream) override;
  bool wait_for_devices(const std::function<void()>& then) override;
  void prepare_device_wait() override;
  bool can_record(StreamId stream) override;
  bool is_capturing(StreamId stream) override;
  bool is_idle(StreamId stream) override;
  bool is_any_busy() override;
  [[nodiscard]] Driver* driver() override { return &unwrapped(); }
  [[nodiscard]] bool is_behind(StreamId waiter, StreamId stream, Tick tick) const override;
  [[nodiscard]] bool was_waited_for(StreamId stream, Tick tick) const override;

  [[nodiscard]] std::uint64_t host_waits() const { return host_waits_; }

 private:
  struct OwnEvent {
    std::shared_ptr<EventOwner> event;       ///< made when it is recorded for the first time
    std::size_t place;                       ///< a number of place_of()
    std::optional<StreamId> waits_for = {};  ///< the stream in which it is to be recorded
  };
  /// A context that is not the primary one of a device of the pool.
  struct OtherContext {
    CUcontext context;
    std::shared_ptr<Device> device;
    std::size_t device_number;  ///< in the pool
  };

  /// Where the events of a stream are made: the primary contexts of the devices come first, then the other contexts.
  [[nodiscard]] std::size_t place_of(StreamId stream) const {
    const std::size_t context = streams_.context_of(stream);
    return context == 0 ? streams_.device_of(stream) : devices_.size() + context - 1;
  }
  [[nodiscard]] const std::shared_ptr<Device>& device_at(std::size_t place) const {
    return place < devices_.size() ? devices_[place] : others_[place - devices_.size()].device;
  }
  [[nodiscard]] Device& device_for(StreamId stream) const { return *device_at(place_of(stream)); }
  [[nodiscard]] std::shared_ptr<EventOwner> make_event(std::size_t place) const;
  /// Whether all work of a stream that has ended is complete.
  bool is_complete(StreamId ended);
  /// The host waits for all work of the stream's context, which covers streams that have ended. False if a capture
  /// forbids that.
  bool wait_for_context(StreamId stream);
  /// A ticket without a point.
  Ticket take(StreamId stream);
  /// The ticket gets a later point of the stream.
  void wait_for_point(StreamId stream, Ticket ticket);
  bool has_point(Ticket ticket, bool may_wait);
  /// False if the stream captures a graph; unless `may_wait`, also if it has ended and may still have work.
  bool try_record(StreamId stream, Ticket ticket, bool may_wait);
  /// Whether the stream has ended or is out of reach, and its work on memory of the pool is known to be complete.
  bool has_completed(StreamId stream) const;
  /// Whether the host has waited for the stream's context, and so for its work on memory that was free by then.
  bool was_context_waited_for(StreamId stream, Tick tick) const;
  /// Whether the event is complete; an event of a context that was destroyed is.
  bool is_event_done(std::size_t place, const EventOwner& event) const;
  /// Waits if the event is not complete. `of`: all work of this stream is complete then.
  void wait_for(std::size_t place, const std::shared_ptr<EventOwner>& event, std::optional<KnownStream> of = {});
  void host_wait(const HostWait& wait) const;
  /// Records the event in the stream now; false if the driver does not know the stream any more.
  bool record_now(const StreamUse& use, OwnEvent& own);
  /// What the driver says about a stream that this thread can use; notes the end of one that the driver does not know.
  StreamState state_of(StreamId stream);
  /// The same. If the stream exists and does not capture, `if_usual` is called while no thread can destroy it.
  template <class Work>
  StreamState state_of(StreamId stream, Work&& if_usual);
  /// False if it has no work left, or has ended and that is not known. True if it is out of reach and may have work.
  bool is_busy(StreamId stream);
  /// The stream's name in StreamOrder; std::nullopt after it was destroyed.
  [[nodiscard]] std::optional<StreamOrder::Stream> name_of(StreamId stream) const;
  [[nodiscard]] Driver& unwrapped() const { return devices_.front()->library().unwrapped(); }
  [[nodiscard]] const StreamOrder& order() const { return devices_.front()->library().order(); }

  std::vector<std::shared_ptr<Device>> devices_;
  StreamTable& streams_;
  std::vector<OtherContext> others_;       // a stream has their numbers plus one
  std::vector<OwnEvent> events_;           // by ticket
  std::vector<std::vector<Ticket>> idle_;  // by place
  std::vector<std::thread::id> throwing_;  // threads between begin_throwing() and end_throwing()
  std::optional<KnownStream> granted_;
  bool is_refused_ = false;              // see begin_throwing()
  bool has_waited_for_devices_ = false;  // likewise
  bool expects_captures_ = false;
  std::size_t unknown_ends_ = 0;  // streams that were seen to have ended without a last event
  ForgottenStreams forgotten_;
  std::uint64_t host_waits_ = 0;
};

}  // namespace memlake
