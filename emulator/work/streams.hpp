#pragma once

// All streams. Work of a stream runs in order: in a worker thread (streams=threads), or when a test steps the stream or
// a thread waits for it (streams=manual). The caller of every function here holds the driver's lock. A function that
// may wait or run work takes the lock as its first argument and releases it meanwhile.

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "basics/ledger.hpp"
#include "basics/this_thread.hpp"
#include "devices/context.hpp"
#include "work/capture_rules.hpp"
#include "work/order.hpp"
#include "work/stream.hpp"

namespace memlake::emulator {

using Lock = std::unique_lock<std::mutex>;

class Streams {
 public:
  /// How far some streams have come: the clock of that point, and the work before it that is not done.
  struct Reached {
    Clock point;
    std::vector<CompletionRef> pending;
  };

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

  /// Gives an operation that is no work its position, without a check. It is done at once if the host has seen all that
  /// comes before it.
  std::uint64_t next_moment(Stream& stream);

  /// Counts an operation of this name that marks a point of the stream, and returns the completion of all before it.
  CompletionRef mark(Stream& stream, const char* name, const Origin& origin);

  /// The clock of the stream's next operation.
  const Clock& before(Stream& stream);

  /// Whether the operation at a position of `other` comes before what the program does with `stream` next: the stream
  /// is ordered behind it, or the host has seen its end.
  bool comes_before(Stream& stream, std::uint64_t other, std::uint64_t position);

  /// Queues an operation that is no work, and calls `at_end` when the stream reaches it. On an idle stream it returns a
  /// done completion and does not call `at_end`. Afterwards Stream::position is the operation's position. Throws as
  /// enqueue().
  CompletionRef when_reached(Stream& stream, const Origin& origin, std::function<void()> at_end);

  /// Whether the stream is done: on true the host has seen the end of the work.
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

  /// How far all streams of a context have come, or those of a green context (`group` is its view).
  [[nodiscard]] Reached reached_by(std::uint64_t group) const;
  /// Makes all streams of the context or green context wait, also those that are made later.
  void wait_all(std::uint64_t group, const Reached& reached, const Origin& origin);

  std::uint64_t hold(Stream& stream, const Origin& origin);
  void open(std::uint64_t gate);
  std::size_t step(Lock& lock, Stream& stream, std::size_t count);
  /// Runs all work of manual streams that can run.
  void run_manual(Lock& lock);

  /// Ends the streams of a context for the program, then finishes their work. Work behind a closed gate is
  /// dropped.
  void drop_context(Lock& lock, const Context& context);
  /// Ends the streams of a green context as drop_context(); late calls on them return 709.
  void drop_green(Lock& lock, std::uint64_t view);

  [[nodiscard]] const StreamMap& all() const { return streams_; }

  CaptureRules capture_rules{streams_};

 private:
  using Key = std::pair<std::uint64_t, long>;  // Stream::group(), thread (0: the legacy stream)

  void wait_for(Stream& stream, const Reached& reached, const Origin& origin);
  Stream& default_stream(Context& context, std::uint64_t view, Stream::Kind kind);
  Stream& add(Context& context, std::uint64_t view, Stream::Kind kind, unsigned flags, int priority,
              const Origin& origin);
  [[nodiscard]] std::vector<CompletionRef> implicit_waits(const Stream& stream) const;
  /// Whether CUDA's default-stream rules order the two streams behind each other.
  [[nodiscard]] static bool is_legacy_pair(const Stream& one, const Stream& other);
  [[nodiscard]] bool is_done(Stream& stream);
  std::uint64_t next_position(Stream& stream);
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
  StreamMap streams_;
  std::map<Key, Stream*> defaults_;
  std::unordered_map<std::uint64_t, Clock> of_gone_streams_;  // by Stream::group(): its blocking streams that are gone
  std::unordered_map<std::uint64_t, Reached> awaited_;        // by Stream::group(): by all its streams, later ones too
  std::unordered_set<std::uint64_t> closed_gates_;
  std::unordered_set<std::uint64_t> of_dropped_contexts_;  // handles whose late use is no violation
  std::unordered_set<std::uint64_t> of_dropped_green_;     // of green contexts that were dropped
  std::uint64_t next_stream_ = 1;
  std::uint64_t next_gate_ = 1;
};

/// Runs code of the program in stream order. It must not call the driver meanwhile.
inline auto host_function(std::function<void()> function) {
  return [function = std::move(function)] {
    this_thread.is_in_host_function = true;
    function();
    this_thread.is_in_host_function = false;
  };
}

}  // namespace memlake::emulator
