#pragma once

// StreamTable: the streams a pool has met, each with the small number by which its blocks know it.
//
// CUDA may give a new stream the handle of a destroyed one, while work of the old one is still running. Where the owner
// of a stream is known, such a stream gets a number of its own, so memory that the old one freed is not handed to the
// new one unseen. Of a stream that somebody else owns only the handle is known.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "blocks/block.hpp"
#include "driver/stream.hpp"

namespace memlake {

/// A stream as a caller names it.
struct StreamName {
  CUstream handle = nullptr;                     ///< null: the default stream
  std::shared_ptr<StreamOwner> owner = nullptr;  ///< null: the default stream, or somebody else's
  std::size_t device = 0;                        ///< the number of its device in the pool
};

class StreamTable {
 public:
  /// The default stream of the first device is there from the start, with number 0.
  StreamTable() : streams_(1) {}

  /// Its number; a new one for a stream that was not met before. Throws Error(config) for the per-thread default
  /// stream, which is another stream in every thread.
  StreamId number_of(const StreamName& stream);
  /// Only if it was met before.
  [[nodiscard]] std::optional<StreamId> known_number_of(const StreamName& stream) const;

  [[nodiscard]] CUstream handle_of(StreamId stream) const { return streams_[stream].handle; }
  [[nodiscard]] std::size_t device_of(StreamId stream) const { return streams_[stream].device; }
  /// False once a stream whose owner is known was destroyed; then nobody can wait for it by its handle.
  [[nodiscard]] bool is_alive(StreamId stream) const;
  /// The last point of a stream that is not alive; null if nobody recorded it.
  [[nodiscard]] const EventOwner* end_of(StreamId stream) const {
    return streams_[stream].end == nullptr ? nullptr : streams_[stream].end->event.get();
  }
  [[nodiscard]] std::size_t size() const { return streams_.size(); }

 private:
  struct Entry {
    CUstream handle = nullptr;
    std::size_t device = 0;
    bool is_owned = false;
    std::weak_ptr<StreamOwner> owner = {};
    std::shared_ptr<StreamEnd> end = nullptr;  ///< of a stream whose owner is known
  };

  [[nodiscard]] static bool is_same(const Entry& entry, const StreamName& stream);

  std::vector<Entry> streams_;  // by number
};

}  // namespace memlake
