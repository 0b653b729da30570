#include "runtime/stream_numbers.hpp"

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/result.hpp"

namespace memlake {

StreamId number_of(LockedPool& locked, const StreamName& stream, bool may_be_elsewhere) {
  StreamTable& streams = locked.streams().table;
  StreamArrivals& arrivals = locked.streams().arrivals;
  if (stream.handle == kPerThreadStream)
    return arrivals.number_of({.handle = stream.handle, .device = stream.device, .thread = this_thread_number()});
  if (stream.owner != nullptr || !is_created(stream.handle)) return arrivals.number_of(stream);
  const std::uint64_t identity = stream_identity(*locked.given().front(), stream.handle);
  const auto known = streams.known_number_of({.handle = stream.handle, .identity = identity});
  const StreamName located = known ? StreamName{} : locked.streams().places.locate(stream.handle, identity);
  const std::size_t device = known ? streams.device_of(*known) : located.device;
  if (device == locked.devices().size() && !may_be_elsewhere)
    throw Error(ErrorKind::invalid_argument,
                "the stream is a stream of another device than those of the pool, where the memory is; use a stream of "
                "one of them, or the default stream");
  if (known) return *known;
  arrivals.make_room_for(located, [&] { return locked.pool().streams_in_use(streams.size()); });
  return arrivals.number_of(located);
}

StreamId number_for_free(LockedPool& locked, CUstream stream) {
  try {
    return number_of(locked, stream, true);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    // Its work may still be running.
    const StreamId number = locked.streams().table.number_of({.handle = stream});
    locked.streams().table.note_end(number);
    return number;
  }
}

bool is_capturing(const LockedPool& locked, const StreamName& stream) {
  if (!is_created(stream.handle) && stream.handle != kPerThreadStream) return false;
  locked.require_usable();
  return stream_is_capturing(*locked.given().front(), stream.handle);
}

StreamName name_of(LockedPool& locked, KnownStream stream) {
  locked.require_usable();
  const auto lock = locked.any_lock();
  const StreamTable& streams = locked.streams().table;
  if (!streams.is_current(stream)) throw Error(ErrorKind::closed, "the stream of the buffer is closed");
  if (streams.is_of_other_thread(stream.number))
    throw Error(
        ErrorKind::invalid_argument,
        "the buffer was allocated for the per-thread default stream of another thread, which has no name in this "
        "thread; name a stream");
  return {.handle = streams.handle_of(stream.number), .device = streams.device_of(stream.number)};
}

bool is_default_stream(LockedPool& locked, StreamId stream) {
  locked.require_usable();
  const auto lock = locked.any_lock();
  return locked.streams().table.is_alive(stream) && locked.streams().table.handle_of(stream) == nullptr;
}

}  // namespace memlake
