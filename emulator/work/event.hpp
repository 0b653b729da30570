#pragma once

// Events: points of streams that other streams and the host wait for. The caller of every function here holds the
// driver's lock.

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "work/shared_event.hpp"
#include "work/streams.hpp"

namespace memlake::emulator {

struct Event {
  std::uint64_t handle;
  std::uint64_t context;
  int device;
  unsigned flags;
  Origin made_by;
  CompletionRef recorded = {};  ///< null: never recorded
  Clock before = {};            ///< the clock of the stream when the event was recorded
  CaptureRef capture = {};      ///< the capture in which it was last recorded; null: outside of captures
  CaptureTips capture_tips = {};
  // Interprocess events only.
  std::shared_ptr<SharedEvent> shared = {};
  std::uint64_t own_record = 0;  ///< the number of the last record of this process; 0: none

  /// The number of the newest record, if another process made it; 0 if not.
  [[nodiscard]] std::uint64_t foreign_record() const {
    if (shared == nullptr) return 0;
    const std::uint64_t newest = shared->newest();
    return newest == own_record ? 0 : newest;
  }
};

class Events {
 public:
  Events(Streams& streams, Order& order, Contexts& contexts) : streams_(streams), order_(order), contexts_(contexts) {}

  Event& create(Context& context, unsigned flags, const Origin& origin);
  /// An event of another process. Throws Refusal as open_ipc_handle().
  Event& open(Context& context, const void* handle, const Origin& origin);
  static void write_handle(const Event& event, void* handle);
  void destroy(Event& event);
  Event& find(CUevent handle);

  void record(Event& event, Stream& stream, const Origin& origin);
  /// Makes the stream wait for the event.
  void wait(Stream& stream, const Event& event, const Origin& origin);
  /// A record or a wait of all streams of a context, or of a green context (`group` is its view); those that are made
  /// later wait, too. Throw 900 if one of them is capturing.
  void record_group(Event& event, Context& context, std::uint64_t group, const Origin& origin);
  void wait_group(Context& context, std::uint64_t group, const Event& event, const Origin& origin);

  /// On true the host has seen the end of the work before the event.
  [[nodiscard]] bool query(const Event& event);
  /// The host waits for the event. Returns what comes before it.
  Clock synchronize(Lock& lock, const Event& event);

  /// Ends the events of a context.
  void drop_context(const Context& context);

  [[nodiscard]] const std::unordered_map<std::uint64_t, Event>& all() const { return all_; }

 private:
  /// A stream for the driver itself, which is destroyed at the end of the call; its work still runs.
  using PassingStream = std::unique_ptr<Stream, std::function<void(Stream*)>>;

  PassingStream passing_stream(Context& context, const Origin& origin);
  Event& add(const Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared, const Origin& origin);
  /// Throws a violation if another process made the event and has destroyed it.
  void check_not_destroyed(const Event& event) const;

  Streams& streams_;
  Order& order_;
  Contexts& contexts_;
  std::unordered_map<std::uint64_t, Event> all_;
  Clock told_others_;  // what comes before records of interprocess events, and so before what other processes do then
  std::uint64_t next_ = 1;
};

inline CUevent as_handle(const Event& event) { return reinterpret_cast<CUevent>(event.handle); }

}  // namespace memlake::emulator
