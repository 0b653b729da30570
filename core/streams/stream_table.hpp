#pragma once

// StreamTable: the streams that a pool has seen, each with the number that its blocks store.
//
// CUDA may give a new stream the handle of a destroyed one, while work of the old one is still running. The table tells
// the two apart by their owner or by the number that the driver gives each stream, and the new stream gets a new
// number, so that the pool does not give it memory of the old stream without a check.
//
// A stream of another library may be destroyed at any time, and then its handle must not be passed to the driver. So
// the handle is used only during calls that name the stream (begin_naming()), unless the program has promised that such
// streams last as long as the pool.
//
// A new stream takes over the number of a destroyed one whose work is complete, and with the number its memory. So the
// tables of a pool have as many entries as streams existed at the same time.

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "blocks/block.hpp"
#include "driver/stream.hpp"
#include "driver/stream_order.hpp"

namespace memlake {

/// A stream as a caller names it.
struct StreamName {
  CUstream handle = nullptr;                     ///< null: the default stream
  std::shared_ptr<StreamOwner> owner = nullptr;  ///< null: the default stream, or one of another library
  std::size_t device = 0;                        ///< the number of its device in the pool
  std::uint64_t thread = 0;                      ///< of the per-thread default stream: this_thread_number()
  std::size_t context = 0;     ///< 0: it works in the primary context of its device; else the number of another context
  std::uint64_t identity = 0;  ///< stream_identity(); 0: not asked, or not known
};

/// A stream by its number, for callers that name it again and again.
struct KnownStream {
  StreamId number = 0;
  std::uint64_t generation = 0;  ///< counts the streams that had the number
  bool operator==(const KnownStream&) const = default;
};

/// A number that no other thread of the process has, also not after this one has ended. Never 0.
std::uint64_t this_thread_number() noexcept;

/// A stream that no other thread destroys while this object lives; or the end of a destroyed stream. Not to be held
/// twice by one thread.
class StreamUse {
 public:
  StreamUse(CUstream handle, StreamEnd* end, bool is_out_of_reach)
      : handle_(handle), end_(end), is_out_of_reach_(is_out_of_reach) {
    if (end_ != nullptr) lock_ = std::shared_lock(end_->mutex);
  }

  /// Whether this thread can queue work on the stream.
  [[nodiscard]] bool is_alive() const { return !is_out_of_reach_ && !has_ended(); }
  /// The handle is invalid. Queued work may still run.
  [[nodiscard]] bool has_ended() const { return end_ != nullptr && end_->is_over; }
  /// It may get more work at any time, but its handle must not be used here: the per-thread default stream of another
  /// thread, or a stream of another library that no call names now.
  [[nodiscard]] bool is_out_of_reach() const { return is_out_of_reach_; }
  /// The stream was destroyed, and a pool has waited for its work.
  [[nodiscard]] bool is_complete() const { return end_ != nullptr && end_->is_complete.load(); }
  /// pre: is_alive().
  [[nodiscard]] CUstream handle() const { return handle_; }
  /// The last event of a stream that is not alive; null if none was recorded.
  [[nodiscard]] const std::shared_ptr<EventOwner>& last_event() const {
    static const std::shared_ptr<EventOwner> none;
    return end_ == nullptr ? none : end_->event;
  }

 private:
  CUstream handle_;
  StreamEnd* end_;  // null: a stream of another library that is not known to be destroyed
  bool is_out_of_reach_;
  std::shared_lock<std::shared_mutex> lock_;
};

class StreamTable {
 public:
  /// The default stream of the first device always has number 0.
  StreamTable() : streams_(1) {}

  /// Whether all work of a stream that has ended is complete.
  using IsComplete = std::function<bool(StreamId)>;

  /// The stream's number. A new stream gets a new one, or that of a stream that has ended if its work `is_complete`.
  /// Throws Error(config) for the per-thread default stream, which is a different stream in every thread, if its thread
  /// is not named.
  StreamId number_of(const StreamName& stream, const IsComplete& is_complete = {});
  /// std::nullopt if the pool has not seen the stream.
  [[nodiscard]] std::optional<StreamId> known_number_of(const StreamName& stream) const;
  /// The number of a created stream of another library, on the first device; quick for a stream that comes again. Does
  /// not notice that CUDA gave the handle to another stream.
  [[nodiscard]] std::optional<StreamId> known_number_of(CUstream created) const {
    const Entry& latest = streams_[latest_];
    if (latest.handle == created && latest.end == nullptr && latest.device == 0 && latest_ != 0) [[likely]]
      return latest_;
    return find(created);
  }

  /// Whether a stream of another library with the handle is known, which may be the same as a stream with an owner.
  [[nodiscard]] bool has_foreign(CUstream created) const {
    const auto found = by_handle_.find(created);
    return found != by_handle_.end() && streams_[found->second].end == nullptr;
  }
  /// The stream of the number, for callers that come again with it.
  [[nodiscard]] KnownStream known(StreamId stream) const { return {stream, streams_[stream].generation}; }
  /// Whether the number still is this stream's, and the stream is not known to have ended.
  [[nodiscard]] bool is_current(KnownStream stream) const {
    if (stream.number >= streams_.size()) return false;
    const Entry& entry = streams_[stream.number];
    return entry.generation == stream.generation && !has_ended(entry);
  }

  [[nodiscard]] CUstream handle_of(StreamId stream) const { return streams_[stream].handle; }
  /// Whether it is the per-thread default stream of another thread: its handle means another stream here.
  [[nodiscard]] bool is_of_other_thread(StreamId stream) const {
    return streams_[stream].thread != 0 && streams_[stream].thread != this_thread_number();
  }
  /// The number of its device in the pool; the number of devices if it is on another one.
  [[nodiscard]] std::size_t device_of(StreamId stream) const { return streams_[stream].device; }
  /// StreamName::context
  [[nodiscard]] std::size_t context_of(StreamId stream) const { return streams_[stream].context; }
  /// False after a stream with a known owner was destroyed, or one of another library that the driver knows no more.
  /// The answer may be old when it arrives: another thread may destroy the stream at any time.
  [[nodiscard]] bool is_alive(StreamId stream) const { return use(stream).is_alive(); }
  /// For driver calls with the stream's handle.
  [[nodiscard]] StreamUse use(StreamId stream) const;
  [[nodiscard]] std::size_t size() const { return streams_.size(); }

  using Tick = StreamOrder::Tick;
  /// A call names the stream: the stream exists until the call has returned, so every thread that has the lock may use
  /// its handle. Returns a number for end_naming().
  std::uint64_t begin_naming(StreamId stream) {
    Entry& entry = streams_[stream];
    ++entry.namings;
    entry.named_at = ++calls_;
    return entry.generation;
  }
  /// `now`: the current tick; see touched_at().
  void end_naming(StreamId stream, std::uint64_t generation, Tick now) {
    Entry& entry = streams_[stream];
    if (entry.generation != generation) return;  // the stream has ended meanwhile
    --entry.namings;
    entry.touched_at = now;
  }
  /// The program destroys no stream of another library while the pool exists. From now on the handles of such streams
  /// are used at any time, and touch() need not be called.
  void promise_lasting_streams() { are_lasting_ = true; }
  [[nodiscard]] bool are_lasting() const { return are_lasting_; }

  /// A new period begins; see may_be_forgotten().
  void begin_period() { period_ = calls_; }
  /// Whether it is a stream of another library that may be gone, and no call has named it in this period.
  [[nodiscard]] bool may_be_forgotten(StreamId stream) const {
    const Entry& entry = streams_[stream];
    return may_be_gone(entry) && entry.named_at <= period_;
  }
  /// Whether many calls have named streams since one named this stream.
  [[nodiscard]] bool is_unused_for_long(StreamId stream) const {
    // Requests for the default stream are not counted.
    return stream != 0 && calls_ - streams_[stream].named_at >= kManyCalls;
  }
  /// Whether it is known to be destroyed.
  [[nodiscard]] bool has_ended(StreamId stream) const { return has_ended(streams_[stream]); }
  /// The number that the driver gave the stream; its handle if the driver gives none.
  [[nodiscard]] std::uint64_t identity_of(StreamId stream) const {
    const Entry& entry = streams_[stream];
    return entry.identity != 0 ? entry.identity : reinterpret_cast<std::uintptr_t>(entry.handle);
  }

  /// Memory was freed in the order of the stream, or came to depend on its work.
  void touch(StreamId stream, Tick now) { streams_[stream].touched_at = now; }
  /// When that happened last: the work of the stream on memory that is free now was queued up to this tick.
  [[nodiscard]] Tick touched_at(StreamId stream) const { return are_lasting_ ? kNever : streams_[stream].touched_at; }

  /// The driver knows no stream with the handle any more. A stream that gets the handle later is another one.
  void note_end(StreamId stream);
  /// The host has waited for all work of a stream that was destroyed.
  void note_complete(StreamId stream);
  /// The stream of another library counts as destroyed, with all its work complete. If the program names it again, it
  /// is a new stream.
  void forget(StreamId stream);
  /// How many of these have kept their numbers until now.
  [[nodiscard]] std::size_t forgotten_count() {
    std::erase_if(forgotten_, [this](KnownStream stream) { return known(stream.number) != stream; });
    return forgotten_.size();
  }

 private:
  static constexpr Tick kNever = std::numeric_limits<Tick>::max();
  static constexpr std::uint64_t kManyCalls = 256;

  struct Entry {
    CUstream handle = nullptr;
    std::size_t device = 0;
    std::size_t context = 0;
    std::weak_ptr<StreamOwner> owner = {};
    std::shared_ptr<StreamEnd> end = nullptr;  ///< null: memlake does not own the stream, and it may exist
    std::uint64_t thread = 0;                  ///< of the per-thread default stream
    std::shared_ptr<const std::atomic<bool>> thread_is_over = nullptr;  ///< likewise
    std::uint64_t identity = 0;
    std::uint64_t generation = 0;
    std::uint32_t namings = 0;   ///< calls under way that name it
    std::uint64_t named_at = 0;  ///< the number of the call that named it last
    Tick touched_at = 0;
  };

  [[nodiscard]] static bool is_same(const Entry& entry, const StreamName& stream);
  [[nodiscard]] static bool has_ended(const Entry& entry) { return entry.end != nullptr && entry.end->is_over; }
  /// Whether its handle must not be used now: the stream is of another library, and no call names it.
  [[nodiscard]] bool may_be_gone(const Entry& entry) const {
    return entry.end == nullptr && is_created(entry.handle) && entry.namings == 0 && !are_lasting_;
  }
  /// The entry that a stream with this handle, of this device and thread, had last.
  [[nodiscard]] std::optional<StreamId> latest_with(const StreamName& stream) const;
  void set_latest(const StreamName& stream, StreamId number);
  /// Looks at a few numbers, in turn, for one whose stream has ended with all its work complete.
  [[nodiscard]] std::optional<StreamId> find_ended(const StreamName& heir, const IsComplete& is_complete);
  [[nodiscard]] std::optional<StreamId> find(CUstream created) const;

  std::vector<Entry> streams_;                        // by number
  std::unordered_map<CUstream, StreamId> by_handle_;  // created streams; of several with one handle the latest
  std::map<std::pair<std::size_t, std::uint64_t>, StreamId> defaults_;  // by device and thread (0: of all threads)
  std::vector<KnownStream> forgotten_;                                  // whose numbers others may take over
  StreamId next_look_ = 1;                                              // where find_ended() goes on
  mutable StreamId latest_ = 0;                                         // found last by its handle alone; 0: none
  bool are_lasting_ = false;                                            // see promise_lasting_streams()
  std::uint64_t calls_ = 0;                                             // that named a stream
  std::uint64_t period_ = 0;                                            // their number when the period began
};

}  // namespace memlake
