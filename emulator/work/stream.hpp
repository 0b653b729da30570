#pragma once

// Streams and events. Work of a stream runs in order: in a worker thread (streams=threads), or when a test steps the
// stream or a thread waits for it (streams=manual). The caller of every function here holds the driver's lock. A
// function that may wait or run work takes the lock as its first argument and releases it meanwhile.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "basics/ledger.hpp"
#include "basics/this_thread.hpp"
#include "cuda/graph_abi.hpp"
#include "devices/context.hpp"
#include "work/launch_attributes.hpp"
#include "work/order.hpp"
#include "work/shared_event.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

using Lock = std::unique_lock<std::mutex>;

/// The priorities of data-centre GPUs; lower is more urgent. They have no effect on the emulator.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

/// A node of a graph under capture, and the data of the edge to the next node.
struct CaptureTip {
  std::uint64_t node;
  CUgraphEdgeData edge = {};
};
using CaptureTips = std::vector<CaptureTip>;

/// A capture: the streams that belong to it share it.
struct Capture {
  std::uint64_t id;
  CUstreamCaptureMode mode;
  long thread;           ///< that began it
  std::uint64_t origin;  ///< the stream in which it began
  std::uint64_t graph;   ///< the graph that gets the nodes
  bool owns_graph;       ///< the graph is given to the program when the capture ends
  bool is_invalidated = false;
  bool has_ended = false;
  CaptureTips of_gone_streams = {};  ///< the last nodes of streams that were destroyed during the capture
};
using CaptureRef = std::shared_ptr<Capture>;
/// The streams that are gone which a clock remembers before it is swept for the first time.
inline constexpr std::size_t kMostGoneStreams = 64;

struct Queued {
  Work work;
  InFlight::Place place;
};

struct Stream {
  enum class Kind { legacy, per_thread, created };

  std::uint64_t handle;
  Kind kind;
  std::uint64_t context;
  Device* device;
  unsigned flags;
  int priority;
  Origin made_by;
  std::uint64_t view = 0;  ///< of its green context; 0: none
  std::deque<std::unique_ptr<Queued>> queue = {};
  CompletionRef last = {};    ///< the completion of the last queued work; null before the first
  bool is_busy = false;       ///< its first piece of work is running
  bool is_destroyed = false;  ///< the program can no longer use it; queued work still runs
  bool has_worker = false;
  std::condition_variable wake = {};           ///< of its worker: its first work can run, or it gets no more work
  std::uint64_t position = 0;                  ///< the number of its operations
  Clock before = {};                           ///< the clock of its next operation, its own earlier operations included
  std::size_t sweep_above = kMostGoneStreams;  ///< the size from which the clock is swept of streams that are gone
  std::map<int, LaunchAttributeValue> attributes = {};  ///< that the program has set, by CUstreamAttrID
  CaptureRef capture = {};                              ///< the capture that its operations become nodes of; null: none
  CaptureTips capture_tips = {};                        ///< the nodes that the next captured node depends on

  /// Whose default stream it is ordered with, and who waits for it: its green context, or its context.
  [[nodiscard]] std::uint64_t group() const { return view != 0 ? view : context; }
  [[nodiscard]] bool is_manual() const { return device->config.streams == StreamMode::manual; }
  [[nodiscard]] bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
  [[nodiscard]] CUstreamCaptureStatus capture_status() const {
    if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
};

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

class Streams {
 public:
  /// `faults` gets the number of the device of each context that failed work loses.
  Streams(std::condition_variable& changed, std::mutex& mutex, InFlight& in_flight, Order& order, Contexts& contexts,
          Ledger& ledger, std::vector<int>& faults)
      : changed_(changed),
        mutex_(mutex),
        in_flight_(in_flight),
        order_(order),
        contexts_(contexts),
        ledger_(ledger),
        faults_(faults) {}

  /// Makes a stream of the context, or of its green context with this view.
  Stream& create(Context& context, std::uint64_t view, unsigned flags, int priority, const Origin& origin);
  void destroy(Stream& stream);

  /// Finds a stream; 0, 1 and 2 are default streams of the current context. Throws 400 for a handle that never existed.
  /// The handle of a destroyed stream is also a violation.
  Stream& find(CUstream handle);

  /// Queues work behind the stream's earlier work and behind the work that CUDA's default-stream rules demand. Throws
  /// 900 on a capture. pre: the work touches no memory.
  void enqueue(Stream& stream, Work&& work);

  /// Queues work that touches memory, as enqueue(). Returns it for the caller to note its uses; it stays there as long
  /// as the caller keeps the lock.
  [[nodiscard]] const Work& enqueue_touching(Stream& stream, Work&& work);

  /// Work that the calling thread waits for.
  struct Awaited {
    const Work& work;
    bool is_first;  ///< nothing is in its way, and the calling thread runs it
  };

  /// Queues work that the caller waits for with finish(). Throws before it queues anything if the wait would never end.
  [[nodiscard]] Awaited enqueue_awaited(Stream& stream, Work&& work);

  /// Waits for the work, or runs it. pre: the caller has kept the lock since enqueue_awaited().
  void finish(Lock& lock, Stream& stream, const Awaited& awaited);

  /// Counts an operation of the stream that is no work, such as an allocation, and returns its position. Throws 900 on
  /// a capture.
  std::uint64_t take_turn(Stream& stream, const Origin& origin);

  /// The clock of the stream's next operation.
  const Clock& before(Stream& stream);

  /// Whether the operation at a position of `other` comes before what the program does with `stream` next: the stream
  /// is ordered behind it, or the host has seen its end.
  bool comes_before(Stream& stream, std::uint64_t other, std::uint64_t position);

  /// Queues an operation that is no work, and calls `at_end` when the stream reaches it. On an idle stream it returns a
  /// done completion and does not call `at_end`. Afterwards Stream::position is the operation's position. Throws as
  /// enqueue().
  CompletionRef when_reached(Stream& stream, const Origin& origin, std::function<void()> at_end);

  [[nodiscard]] bool is_done(Stream& stream);
  /// Whether the stream is done, for the program: on true the host has seen the end of the work.
  [[nodiscard]] bool query(Stream& stream);
  /// The waits of the host. After them the host has seen the end of the work. They return what comes before that point.
  Clock synchronize(Lock& lock, Stream& stream);
  Clock synchronize_context(Lock& lock, const Context& context);
  Clock synchronize_green(Lock& lock, std::uint64_t view);
  void synchronize_device(Lock& lock, const Device& device);
  /// A call told the program that the context is lost: what runs on memory ends, the rest never runs.
  void see_lost(Lock& lock, std::uint64_t context);
  /// Throws a violation if the wait would never end.
  void wait(Lock& lock, const CompletionRef& completion);

  Event& create_event(Context& context, unsigned flags, const Origin& origin);
  /// An event of another process. Throws Refusal as open_ipc_handle().
  Event& open_event(Context& context, const void* handle, const Origin& origin);
  static void write_handle(const Event& event, void* handle);
  void destroy_event(Event& event);
  Event& find_event(CUevent handle);
  void record(Event& event, Stream& stream, const Origin& origin);
  void wait_event(Stream& stream, const Event& event, const Origin& origin);
  /// A record or a wait of all streams of a context, or of a green context (`group` is its view); those that are made
  /// later wait, too. Throw 900 if one of them is capturing.
  void record_group(Event& event, Context& context, std::uint64_t group, const Origin& origin);
  void wait_group(Context& context, std::uint64_t group, const Event& event, const Origin& origin);
  /// Throws a violation if another process made the event and has destroyed it.
  void check_not_destroyed(const Event& event) const;
  /// On true the host has seen the end of the work before the event.
  [[nodiscard]] bool query_event(const Event& event);
  Clock synchronize_event(Lock& lock, const Event& event);

  /// Makes the stream the origin of a capture into the graph.
  void begin_capture(Stream& stream, CUstreamCaptureMode mode, std::uint64_t graph, bool owns_graph, CaptureTips tips);
  /// Ends the capture in all its streams.
  void end_capture(const CaptureRef& capture);
  /// Refuses a call that is not safe during a capture, if the mode of the calling thread asks for that; the captures
  /// that forbid it are spoilt.
  void check_safe_during_captures();
  /// Throws what every operation on the stream must return during a capture: 901 if its capture is spoilt, 906 if the
  /// legacy stream would wait for a capturing stream, whose capture is then spoilt.
  void check_usable(Stream& stream);
  /// Refuses an operation that cannot be captured; the capture is spoilt.
  void check_not_capturing(Stream& stream);
  /// Throws 906 as check_usable(), but spoils no capture. For queries.
  void check_not_implicit(const Stream& stream) const;

  std::uint64_t hold(Stream& stream, const Origin& origin);
  void open(std::uint64_t gate);
  std::size_t step(Lock& lock, Stream& stream, std::size_t count);
  /// Runs all work of manual streams that can run.
  void run_manual(Lock& lock);

  /// Ends the streams and events of a context for the program, then finishes their work. Work behind a closed gate is
  /// dropped.
  void drop_context(Lock& lock, const Context& context);
  /// Ends the streams of a green context as drop_context(); late calls on them return 709.
  void drop_green(Lock& lock, std::uint64_t view);

  [[nodiscard]] const std::unordered_map<std::uint64_t, std::shared_ptr<Stream>>& all() const { return streams_; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, Event>& events() const { return events_; }

 private:
  using Key = std::pair<std::uint64_t, long>;  // Stream::group(), thread (0: the legacy stream)

  /// A stream for the driver itself, which is destroyed at the end of the call; its work still runs.
  using PassingStream = std::unique_ptr<Stream, std::function<void(Stream*)>>;
  /// What the streams of a context wait for.
  struct Reached {
    Clock point;
    std::vector<CompletionRef> pending;
  };

  PassingStream passing_stream(Context& context, const Origin& origin);
  void check_none_captures(std::uint64_t group);
  void wait_for(Stream& stream, const Reached& reached, const Origin& origin);
  Stream& default_stream(Context& context, std::uint64_t view, Stream::Kind kind);
  Stream& add(Context& context, std::uint64_t view, Stream::Kind kind, unsigned flags, int priority,
              const Origin& origin);
  Event& add_event(const Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared, const Origin& origin);
  [[nodiscard]] std::vector<CompletionRef> implicit_waits(const Stream& stream) const;
  /// Whether CUDA's default-stream rules order the two streams behind each other.
  [[nodiscard]] static bool is_legacy_pair(const Stream& one, const Stream& other);
  std::uint64_t next_position(Stream& stream);
  /// The position of an operation that is no work: it is done at once if the host has seen all that comes before it.
  std::uint64_t next_moment(Stream& stream);
  /// Gives the work its place in the stream, and adds it to the queue.
  const Work& push(Stream& stream, Work&& work);
  [[nodiscard]] bool is_ready(const Stream& stream) const;
  [[nodiscard]] bool is_stuck(const Stream& stream) const;
  void check_will_end(const CompletionRef& completion) const;
  void run_first(Lock& lock, Stream& stream);
  void finish_first(Stream& stream);
  template <class Selects>
  Clock wait_for_streams(Lock& lock, Selects&& selects);
  bool advance(Lock& lock, const CompletionRef& completion);
  void start_worker(Stream& stream);
  /// Wakes the worker of a stream if the worker can go on. Each stream has a condition variable of its own: a common
  /// one would wake the workers of all streams at each change.
  void wake_worker(Stream& stream);
  /// Whether the stream gets no more work, and its worker ends.
  [[nodiscard]] static bool is_worker_done(const Stream& stream);
  void work_loop(Stream& stream);
  [[nodiscard]] const std::shared_ptr<Stream>& owner_of(const Stream& stream) const {
    return streams_.at(stream.handle);
  }
  void erase_if_finished(const Stream& stream);
  void finish_all(Lock& lock, const std::vector<std::shared_ptr<Stream>>& dropped);
  /// The host has waited for a context and its green contexts.
  void see_ended(std::uint64_t context);

  std::condition_variable& changed_;
  std::mutex& mutex_;
  InFlight& in_flight_;
  Order& order_;
  Contexts& contexts_;
  Ledger& ledger_;
  std::vector<int>& faults_;
  /// Shared, because the worker of a stream, or a thread that steps or drops it, may use it after its last work.
  std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::unordered_map<std::uint64_t, Event> events_;
  std::map<Key, Stream*> defaults_;
  Clock told_others_;  // what comes before records of interprocess events, and so before what other processes do then
  std::unordered_map<std::uint64_t, Clock> of_gone_streams_;  // by Stream::group(): its blocking streams that are gone
  std::unordered_map<std::uint64_t, Reached> awaited_;        // by Stream::group(): by all its streams, later ones too
  std::unordered_set<std::uint64_t> closed_gates_;
  std::unordered_set<std::uint64_t> of_dropped_contexts_;  // handles whose late use is no violation
  std::unordered_set<std::uint64_t> of_dropped_green_;     // of green contexts that were dropped
  std::uint64_t next_stream_ = 1;
  std::uint64_t next_event_ = 1;
  std::uint64_t next_gate_ = 1;
  std::uint64_t next_capture_ = 1;
  std::size_t captures_ = 0;  // that are under way
};

/// Runs code of the program in stream order. It must not call the driver meanwhile.
inline auto host_function(std::function<void()> function) {
  return [function = std::move(function)] {
    this_thread.is_in_host_function = true;
    function();
    this_thread.is_in_host_function = false;
  };
}

inline CUstream as_handle(const Stream& stream) { return reinterpret_cast<CUstream>(stream.handle); }
inline CUevent as_handle(const Event& event) { return reinterpret_cast<CUevent>(event.handle); }

}  // namespace memlake::emulator
