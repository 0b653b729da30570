#pragma once

// DriverProgress: the StreamProgress of a live pool. The driver says how far a stream has come, and StreamOrder what
// the program has ordered and waited for.

#include <optional>

#include "driver/stream.hpp"
#include "streams/stream_places.hpp"
#include "streams/stream_progress.hpp"

namespace memlake {

class DriverProgress final : public StreamProgress {
 public:
  DriverProgress(StreamTable& streams, const StreamPlaces& places)
      : StreamProgress(&places.order().ticks()), streams_(streams), places_(places) {}

  [[nodiscard]] bool is_behind(StreamId waiter, StreamId stream, Tick tick) const override;
  [[nodiscard]] bool was_waited_for(StreamId stream, Tick tick) const override;
  bool can_record(StreamId stream) override;
  bool is_capturing(StreamId stream) override;
  bool is_idle(StreamId stream) override;
  bool is_any_busy() override;
  bool has_passed_all(StreamId stream) override;
  void find_complete_ends() override;

  /// What the driver says about a stream that this thread can use; notes the end of one that the driver does not know.
  StreamState state_of(StreamId stream);
  /// As state_of(). If the stream exists and does not capture, `if_usual` is called while no thread can destroy it.
  template <class Work>
  StreamState state_of(StreamId stream, Work&& if_usual);
  /// Whether the stream has ended or is out of reach, and its work on memory of the pool is known to be complete.
  [[nodiscard]] bool has_completed(StreamId stream) const;

 private:
  /// Whether the host has waited for the stream's context, and so for its work on memory that was free by then.
  [[nodiscard]] bool was_context_waited_for(StreamId stream, Tick tick) const;
  /// False if it has no work left, or has ended and that is not known. True if it is out of reach and may have work.
  bool is_busy(StreamId stream);
  /// The stream's name in StreamOrder; std::nullopt after it was destroyed.
  [[nodiscard]] std::optional<StreamOrder::Stream> name_of(StreamId stream) const;

  StreamTable& streams_;
  const StreamPlaces& places_;
};

template <class Work>
StreamState DriverProgress::state_of(StreamId stream, Work&& if_usual) {
  StreamState state = StreamState::unknown;
  {
    const StreamUse use = streams_.use(stream);
    if (!use.is_alive()) return state;
    state = stream_state(places_.device_for(stream), use.handle());
    if (state == StreamState::usual) if_usual(use);
  }
  if (state == StreamState::unknown) streams_.note_end(stream);
  return state;
}

}  // namespace memlake
