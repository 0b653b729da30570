#pragma once

// StreamTable: the streams that a pool has seen, each with the number that its blocks store.
//
// CUDA may give a new stream the handle of a destroyed one, while work of the old one is still running. If the owner of
// a stream is known, the new stream gets a new number, so that the pool does not give it memory of the old stream
// without a check. For a stream of another library the pool knows only the handle.

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "blocks/block.hpp"
#include "driver/stream.hpp"

namespace memlake {

/// A stream as a caller names it.
struct StreamName {
  CUstream handle = nullptr;                     ///< null: the default stream
  std::shared_ptr<StreamOwner> owner = nullptr;  ///< null: the default stream, or one of another library
  std::size_t device = 0;                        ///< the number of its device in the pool
  std::uint64_t thread = 0;                      ///< of the per-thread default stream: this_thread_number()
};

/// A number that no other thread of the process has, also not after this one has ended. Never 0.
std::uint64_t this_thread_number() noexcept;

/// A stream that no other thread destroys while this object lives; or the end of a destroyed stream. Not to be held
/// twice by one thread.
class StreamUse {
 public:
  StreamUse(CUstream handle, StreamEnd* end, bool is_of_other_thread)
      : handle_(handle), end_(end), is_of_other_thread_(is_of_other_thread) {
    if (end_ != nullptr) lock_ = std::shared_lock(end_->mutex);
  }

  /// Whether this thread can queue work on the stream.
  [[nodiscard]] bool is_alive() const { return !is_of_other_thread_ && (end_ == nullptr || !end_->is_over); }
  /// The per-thread default stream of another thread: it has no handle here, and may get more work at any time.
  [[nodiscard]] bool is_of_other_thread() const { return is_of_other_thread_; }
  /// The stream was destroyed, and a pool has waited for its work.
  [[nodiscard]] bool is_complete() const { return end_ != nullptr && end_->is_complete.load(); }
  /// pre: is_alive().
  [[nodiscard]] CUstream handle() const { return handle_; }
  /// The last event of a stream that is not alive; null if none was recorded.
  [[nodiscard]] const EventOwner* last_event() const { return end_ == nullptr ? nullptr : end_->event.get(); }

 private:
  CUstream handle_;
  StreamEnd* end_;  // null: a stream of another library that is not known to be destroyed
  bool is_of_other_thread_;
  std::shared_lock<std::shared_mutex> lock_;
};

class StreamTable {
 public:
  /// The default stream of the first device always has number 0.
  StreamTable() : streams_(1) {}

  /// The stream's number; a new stream gets a new one. Throws Error(config) for the per-thread default stream, which is
  /// a different stream in every thread, if its thread is not named.
  StreamId number_of(const StreamName& stream);
  /// std::nullopt if the pool has not seen the stream.
  [[nodiscard]] std::optional<StreamId> known_number_of(const StreamName& stream) const;
  /// The same for a created stream of another library, on the first device; quick for a stream that comes again.
  [[nodiscard]] std::optional<StreamId> known_number_of(CUstream created) const {
    const Entry& latest = streams_[latest_];
    if (latest.handle == created && latest.end == nullptr && latest.device == 0 && latest_ != 0) [[likely]]
      return latest_;
    return find(created);
  }

  [[nodiscard]] CUstream handle_of(StreamId stream) const { return streams_[stream].handle; }
  [[nodiscard]] std::size_t device_of(StreamId stream) const { return streams_[stream].device; }
  /// False after a stream with a known owner was destroyed, or one of another library that the driver knows no more.
  /// The answer may be old when it arrives: another thread may destroy the stream at any time.
  [[nodiscard]] bool is_alive(StreamId stream) const { return use(stream).is_alive(); }
  /// For driver calls with the stream's handle.
  [[nodiscard]] StreamUse use(StreamId stream) const;
  [[nodiscard]] std::size_t size() const { return streams_.size(); }

  /// The driver knows no stream with the handle any more. A stream that gets the handle later is another one.
  void note_end(StreamId stream);
  /// The host has waited for all work of a stream that was destroyed.
  void note_complete(StreamId stream);

 private:
  struct Entry {
    CUstream handle = nullptr;
    std::size_t device = 0;
    std::weak_ptr<StreamOwner> owner = {};
    std::shared_ptr<StreamEnd> end = nullptr;  ///< null: memlake does not own the stream, and it may exist
    std::uint64_t thread = 0;                  ///< of the per-thread default stream
  };

  [[nodiscard]] static bool is_same(const Entry& entry, const StreamName& stream);
  [[nodiscard]] std::optional<StreamId> find(CUstream created) const;

  std::vector<Entry> streams_;   // by number
  mutable StreamId latest_ = 0;  // found last by its handle alone; 0: none
};

}  // namespace memlake
