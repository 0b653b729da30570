#pragma once

// The numbers of streams that callers name, in the table of a pool. A stream that is new there gets one.

#include "runtime/locked_pool.hpp"

namespace memlake {

/// The number of a stream; the driver is asked about one of another library. Error(config) if the driver knows none,
/// or, unless `may_be_elsewhere`, if it is not of a device of the pool. pre: the lock is held.
StreamId number_of(LockedPool& locked, const StreamName& stream, bool may_be_elsewhere = false);

/// The number of a stream of which only the handle is known. Error(config) as above, for a stream that is new here. A
/// handle that CUDA gave to another stream is not noticed. pre: the lock is held.
inline StreamId number_of(LockedPool& locked, CUstream stream, bool may_be_elsewhere) {
  if (stream == nullptr) return 0;
  if (is_created(stream)) [[likely]]
    if (const auto known = locked.streams().table.known_number_of(stream))
      if (may_be_elsewhere || locked.streams().table.device_of(*known) < locked.devices().size()) [[likely]]
        return *known;
  return number_of(locked, StreamName{.handle = stream}, may_be_elsewhere);
}

/// The number of a stream for a free, which is not refused because of its stream: one that the driver does not know has
/// ended. pre: the lock is held.
StreamId number_for_free(LockedPool& locked, CUstream stream);

/// Whether the stream captures a graph. Error(config) if the driver knows no such stream. It takes no lock.
[[nodiscard]] bool is_capturing(const LockedPool& locked, const StreamName& stream);

/// The handle and the device of a stream. Error(closed) if the stream has ended, Error(invalid_argument) if it has no
/// name in the calling thread. It takes the lock.
[[nodiscard]] StreamName name_of(LockedPool& locked, KnownStream stream);

/// Whether it is the default stream of the first device. It takes the lock.
[[nodiscard]] bool is_default_stream(LockedPool& locked, StreamId stream);

}  // namespace memlake
