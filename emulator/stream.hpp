#pragma once

// Streams and events. Work of a stream runs in order: in a thread of its own (streams=threads), or when a test steps it
// or somebody waits for it (streams=manual). Everything here is called with the driver's lock held; a function that may
// wait or run work takes the lock as its first argument and gives it up meanwhile.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "context.hpp"
#include "work.hpp"

namespace memlake::emulator {

using Lock = std::unique_lock<std::mutex>;

/// As on data-centre GPUs; lower is more urgent, and nothing here runs sooner for it.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

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
  std::deque<std::unique_ptr<Queued>> queue = {};
  CompletionRef last = {};    ///< of the work queued last; null before any
  bool is_busy = false;       ///< its first piece of work is running
  bool is_destroyed = false;  ///< the program has it no more; what is queued still runs
  bool has_worker = false;
  std::uint64_t position = 0;  ///< how many operations it was given
  Clock before = {};           ///< what its next operation comes after, its own earlier ones included
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  std::uint64_t capture_id = 0;

  [[nodiscard]] bool is_manual() const { return device->config.streams == StreamMode::manual; }
  [[nodiscard]] bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
  std::uint64_t handle;
  std::uint64_t context;
  int device;
  unsigned flags;
  Origin made_by;
  CompletionRef recorded = {};  ///< null: never recorded
  Clock before = {};            ///< what it comes after, as recorded
};

class Streams {
 public:
  /// `on_failure` is told when work fails for good, with a sentence.
  Streams(std::condition_variable& changed, std::mutex& mutex, InFlight& in_flight, Contexts& contexts,
          std::function<void(const std::string&)> on_failure)
      : changed_(changed),
        mutex_(mutex),
        in_flight_(in_flight),
        contexts_(contexts),
        on_failure_(std::move(on_failure)) {}

  Stream& create(Context& context, unsigned flags, int priority, const Origin& origin);
  void destroy(Stream& stream);

  /// Resolves 0, 1 and 2 against the current context. Throws 400 for a handle that never existed; a destroyed one is a
  /// violation as well.
  Stream& find(CUstream handle);

  /// Queues work behind what the stream has and behind what CUDA's default-stream rules demand. Throws 900 on a
  /// capture.
  void enqueue(Stream& stream, Work work);

  /// Queues work and waits for it; runs it in the calling thread if nothing is in its way. Throws before it queues
  /// anything if the wait would never end.
  void run_and_wait(Lock& lock, Stream& stream, Work work);

  /// Notes an operation of the stream that is no work, such as an allocation; returns its position. Throws 900 on a
  /// capture.
  std::uint64_t take_turn(Stream& stream);

  /// What the stream's next operation comes after, as things stand.
  const Clock& before(Stream& stream);

  /// An operation that is no work but has its turn: calls `at_end` when the stream comes to it. On an idle stream that
  /// is now, which the caller sees from the completion: it is done, and nothing is called. The operation's position is
  /// the one the stream has afterwards. Throws as enqueue().
  CompletionRef when_reached(Stream& stream, const Origin& origin, std::function<void()> at_end);

  [[nodiscard]] bool is_done(Stream& stream);
  void synchronize(Lock& lock, Stream& stream);
  void synchronize_context(Lock& lock, const Context& context);
  void synchronize_device(Lock& lock, const Device& device);
  /// Throws a violation if that would never end.
  void wait(Lock& lock, const CompletionRef& completion);

  Event& create_event(Context& context, unsigned flags, const Origin& origin);
  void destroy_event(Event& event);
  Event& find_event(CUevent handle);
  void record(Event& event, Stream& stream, const Origin& origin);
  void wait_event(Stream& stream, const Event& event, const Origin& origin);

  void begin_capture(Stream& stream);
  /// Throws: the emulator has no graphs to end with.
  [[noreturn]] void end_capture(Stream& stream);

  std::uint64_t hold(Stream& stream, const Origin& origin);
  void open(std::uint64_t gate);
  std::size_t step(Lock& lock, Stream& stream, std::size_t count);

  /// Takes the streams and events of a context from the program, then finishes their work or, where a gate is in the
  /// way, drops it.
  void drop_context(Lock& lock, const Context& context);

  [[nodiscard]] const std::unordered_map<std::uint64_t, std::shared_ptr<Stream>>& all() const { return streams_; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, Event>& events() const { return events_; }

 private:
  using Key = std::pair<std::uint64_t, long>;  // context, thread (0: the legacy stream)

  Stream& default_stream(Context& context, Stream::Kind kind);
  Stream& add(Context& context, Stream::Kind kind, unsigned flags, int priority, const Origin& origin);
  [[nodiscard]] std::vector<CompletionRef> implicit_waits(const Stream& stream) const;
  /// Do CUDA's default-stream rules order the two, one behind the other?
  [[nodiscard]] static bool is_legacy_pair(const Stream& one, const Stream& other);
  std::uint64_t next_position(Stream& stream);
  [[nodiscard]] bool is_ready(const Stream& stream) const;
  [[nodiscard]] bool is_stuck(const Stream& stream) const;
  void check_will_end(const CompletionRef& completion) const;
  void check_not_capturing(Stream& stream);
  void run_first(Lock& lock, Stream& stream);
  void finish_first(Stream& stream);
  bool advance(Lock& lock, const CompletionRef& completion);
  void start_worker(Stream& stream);
  void work_loop(Stream& stream);
  [[nodiscard]] const std::shared_ptr<Stream>& owner_of(const Stream& stream) const {
    return streams_.at(stream.handle);
  }
  void erase_if_finished(const Stream& stream);

  std::condition_variable& changed_;
  std::mutex& mutex_;
  InFlight& in_flight_;
  Contexts& contexts_;
  std::function<void(const std::string&)> on_failure_;
  /// Shared with whoever still looks at a stream whose last work is done: its worker, a thread that steps or drops it.
  std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::unordered_map<std::uint64_t, Event> events_;
  std::map<Key, Stream*> defaults_;
  std::unordered_set<std::uint64_t> closed_gates_;
  std::unordered_set<std::uint64_t> of_dropped_contexts_;  // handles that may come back late without blame
  std::uint64_t next_stream_ = 1;
  std::uint64_t next_event_ = 1;
  std::uint64_t next_gate_ = 1;
  std::uint64_t next_capture_ = 1;
};

/// Is stream 0 the calling thread's own stream just now? Set by the _ptsz and _ptds variants.
bool& default_is_per_thread();

/// Is the calling thread inside a host function? Then it may call nothing of the driver.
bool& is_in_host_function();

inline CUstream as_handle(const Stream& stream) { return reinterpret_cast<CUstream>(stream.handle); }
inline CUevent as_handle(const Event& event) { return reinterpret_cast<CUevent>(event.handle); }

}  // namespace memlake::emulator
