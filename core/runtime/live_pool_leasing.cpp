// The part of LivePool that serves requests: quickly with a free block, or with all waits that they need.

#include <string>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "runtime/live_pool.hpp"
#include "runtime/stream_numbers.hpp"
#include "runtime/waiting.hpp"

namespace memlake {

KnownStream LivePool::known_stream(const StreamName& stream) {
  const auto lock = locked_.open_lock();
  return locked_.streams().table.known(number_of(locked_, stream));
}

std::optional<Lease> LivePool::lease_at_once(Bytes requested) {
  if (!locked_.can_undo()) return std::nullopt;  // allocate() says why
  const auto lock = locked_.try_lock_if_open();
  if (!lock || graphs_.pool_for(nullptr)) return std::nullopt;
  Block* block = locked_.pool().take_at_once(requested, 0);
  if (block == nullptr) return std::nullopt;
  return Lease(shared_from_this(), block, requested, locked_.streams().table.known(0), sharing_.is_default());
}

std::optional<Lease> LivePool::lease_free_block(Bytes requested, KnownStream stream) {
  auto lock = locked_.lock_if_open();
  return lock ? lease_free_block_locked(lock, requested, stream) : std::nullopt;
}

std::optional<Lease> LivePool::lease_free_block(Bytes requested, CUstream stream) {
  auto lock = locked_.lock_if_open();
  if (!lock) return std::nullopt;
  StreamName name{.handle = stream};
  if (is_created(stream)) name.identity = stream_identity(*locked_.given().front(), stream);
  if (stream == kPerThreadStream) name.thread = this_thread_number();
  const auto number = locked_.streams().table.known_number_of(name);
  // A stream of another device, to which memory was freed, gets no memory: allocate() says why.
  if (!number || locked_.streams().table.device_of(*number) == locked_.devices().size()) return std::nullopt;
  return lease_free_block_locked(lock, requested, locked_.streams().table.known(*number));
}

std::optional<Lease> LivePool::lease_free_block_locked(std::unique_lock<Lock>& lock, Bytes requested,
                                                       KnownStream stream) {
  StreamTable& streams = locked_.streams().table;
  if (!streams.is_current(stream) || graphs_.pool_for(streams.handle_of(stream.number))) return std::nullopt;
  DriverEvents& events = locked_.streams().events;
  const Naming naming(events.handles(), stream.number);
  // The answer notes the end of a stream that is gone.
  if (stream.number != 0 && (events.progress().is_capturing(stream.number) || !streams.is_current(stream)))
    return std::nullopt;
  Block* block = locked_.pool().take_at_once(requested, stream.number);
  if (block == nullptr)
    block = locked_.waiting(
        lock, [&] { return locked_.pool().take_free(locked_.pool().spaces().by_default(), requested, stream.number); });
  if (block == nullptr) return std::nullopt;
  return Lease(shared_from_this(), block, requested, stream, sharing_.is_default());
}

std::optional<Lease> LivePool::allocate(Bytes requested, const StreamName& stream, Shortage& shortage,
                                        std::optional<bool> is_shareable, bool is_single) {
  const bool captures = is_capturing(locked_, stream);
  auto lock = locked_.open_lock();
  const StreamId number = locked_.waiting(lock, [&] { return number_of(locked_, stream); });
  const Naming naming(locked_.streams().events.handles(), number);
  const auto choose = [&]() -> Space& {
    const auto graph_pool = graphs_.pool_for(stream.handle);
    const bool wants_shareable = is_shareable.value_or(sharing_.is_default() && !graph_pool);
    if (captures && !graph_pool)
      throw Error(ErrorKind::invalid_argument,
                  "the stream is capturing a graph, which will use its addresses at every launch, so the memory must "
                  "come from a graph pool; allocate inside `with pool.graph_pool():`, or before the capture");
    if (graph_pool && (wants_shareable || is_single))
      throw Error(ErrorKind::invalid_argument, std::string("memory of a graph pool cannot be ") +
                                                   (is_single ? "one handle" : "shared with other processes") +
                                                   "; allocate it before the capture");
    if (graph_pool) return graphs_.space_for(*graph_pool, number);
    if (is_single && wants_shareable && !sharing_.single_space().is_exportable())
      sharing_.space_for(true);  // says why not
    return is_single ? sharing_.single_space() : sharing_.space_for(wants_shareable);
  };
  if (requested.count == 0) {
    choose();
    return Lease(shared_from_this(), locked_.streams().table.known(number));
  }
  Block* block = serve_with_waits(locked_, sharing_, lock, choose, requested, number);
  if (block != nullptr)
    return Lease(shared_from_this(), block, requested, locked_.streams().table.known(number),
                 sharing_.is_exportable(*block));
  shortage = locked_.shortage();
  return std::nullopt;
}

bool LivePool::preallocate(Bytes size, const StreamName& stream, Shortage& shortage) {
  if (is_capturing(locked_, stream))
    throw Error(
        ErrorKind::invalid_argument,
        "the stream is capturing a graph, so no memory can be taken for it in advance; do it before the capture");
  auto lock = locked_.open_lock();
  const StreamId number = locked_.waiting(lock, [&] { return number_of(locked_, stream); });
  const Naming naming(locked_.streams().events.handles(), number);
  RequestRow row;
  const auto attempt = [&] { return locked_.pool().preallocate(size, number, &row); };
  if (size.count == 0 || sharing_.without_refused_features([&] { return locked_.waiting(lock, attempt); })) {
    locked_.pool().end_request(row);
    return true;
  }
  shortage = locked_.shortage();
  return false;
}

void LivePool::release_cached() {
  auto lock = locked_.open_lock();
  locked_.waiting(lock, [&] {
    locked_.pool().release_cached();
    return true;
  });
}

}  // namespace memlake
