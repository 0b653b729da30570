#pragma once

// HostWait: thrown where an operation of a pool would have to wait for a stream, if its caller holds the pool's lock
// and can begin the operation anew. The caller unlocks the pool, waits, locks it and tries again; other threads use the
// pool meanwhile. The operation has changed nothing that is live or pending, as behind every error.

#include <functional>
#include <optional>
#include <vector>

#include "streams/stream_table.hpp"

namespace memlake {

struct HostWait {
  std::function<void()> wait;              ///< to be called without the lock; keeps what it needs
  std::optional<KnownStream> stream = {};  ///< then all work that was queued on this stream before is complete
  std::function<void()> then = {};         ///< to be called after the wait, with the lock; may be empty
  std::vector<KnownStream> ended = {};     ///< then all work of these streams is complete, which had ended before
  bool is_for_devices = false;             ///< then all work is complete that was queued before on the pool's devices
};

}  // namespace memlake
