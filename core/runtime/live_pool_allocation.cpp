// The part of LivePool that serves requests: the streams that they name, the waits that they need, and their memory.

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "driver/relaxed_capture.hpp"
#include "runtime/live_pool_waiting.hpp"

namespace memlake {

namespace {

/// What a wait needs. The wait goes first: it keeps objects whose driver is a part of the pool.
struct Waited {
  std::shared_ptr<LivePool> pool;
  std::function<void()> wait;
};

}  // namespace

StreamId LivePool::number_of(const StreamName& stream, bool may_be_elsewhere) {
  if (stream.handle == kPerThreadStream)
    return events_.number_of({.handle = stream.handle, .device = stream.device, .thread = this_thread_number()});
  if (stream.owner != nullptr || !is_created(stream.handle)) return events_.number_of(stream);
  const std::uint64_t identity = stream_identity(*given_.front(), stream.handle);
  const auto known = streams_.known_number_of({.handle = stream.handle, .identity = identity});
  const StreamName located = known ? StreamName{} : events_.locate(stream.handle, identity);
  const std::size_t device = known ? streams_.device_of(*known) : located.device;
  if (device == devices_.size() && !may_be_elsewhere)
    throw Error(ErrorKind::invalid_argument,
                "the stream is a stream of another device than those of the pool, where the memory is; use a stream of "
                "one of them, or the default stream");
  if (known) return *known;
  events_.make_room_for(located, [this] { return pool_->streams_in_use(streams_.size()); });
  return events_.number_of(located);
}

KnownStream LivePool::known_stream(const StreamName& stream) {
  const auto lock = open_lock();
  return streams_.known(number_of(stream));
}

std::optional<Lease> LivePool::allocate_at_once(Bytes requested) {
  if (!can_undo()) return std::nullopt;  // allocate() says why
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !pool_ || graph_pool_for(nullptr)) return std::nullopt;
  Block* block = pool_->allocate_cached(requested, 0);
  if (block == nullptr) return std::nullopt;
  return Lease(shared_from_this(), block, requested, streams_.known(0), sharing_.is_default_space);
}

std::optional<KnownStream> LivePool::wait_unlocked(std::unique_lock<Lock>& lock, const HostWait& wait) {
  const StreamId stream = wait.stream.value_or(KnownStream{}).number;
  const std::uint64_t freed_before = pool_->begin_host_wait(stream);
  lock.unlock();
  std::exception_ptr error;
  try {
    // An interrupted wait goes on behind the caller's back, so it keeps the pool.
    wait_interruptibly([waited = Waited{shared_from_this(), wait.wait}, driver = events_.driver()] {
      const RelaxedCapture relaxed(driver);
      waited.wait();
    });
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  require_open_locked();
  const bool is_unchanged = pool_->end_host_wait(stream) == freed_before;
  if (error != nullptr) std::rethrow_exception(error);
  events_.note_waited(wait);
  return is_unchanged ? wait.stream : std::nullopt;
}

std::optional<Lease> LivePool::allocate_free(Bytes requested, KnownStream stream) {
  if (!can_undo()) return std::nullopt;
  std::unique_lock lock(mutex_);
  return pool_ ? allocate_free_locked(lock, requested, stream) : std::nullopt;
}

std::optional<Lease> LivePool::allocate_free(Bytes requested, CUstream stream) {
  if (!can_undo()) return std::nullopt;
  std::unique_lock lock(mutex_);
  if (!pool_) return std::nullopt;
  StreamName name{.handle = stream};
  if (is_created(stream)) name.identity = stream_identity(*given_.front(), stream);
  if (stream == kPerThreadStream) name.thread = this_thread_number();
  const auto number = streams_.known_number_of(name);
  // A stream of another device, to which memory was freed, gets no memory: allocate() says why.
  if (!number || streams_.device_of(*number) == devices_.size()) return std::nullopt;
  return allocate_free_locked(lock, requested, streams_.known(*number));
}

std::optional<Lease> LivePool::allocate_free_locked(std::unique_lock<Lock>& lock, Bytes requested, KnownStream stream) {
  if (!streams_.is_current(stream) || graph_pool_for(streams_.handle_of(stream.number))) return std::nullopt;
  const Naming naming(events_, stream.number);
  // The answer notes the end of a stream that is gone.
  if (stream.number != 0 && (events_.is_capturing(stream.number) || !streams_.is_current(stream))) return std::nullopt;
  Block* block = pool_->allocate_cached(requested, stream.number);
  if (block == nullptr)
    block = waiting(lock, [&] { return pool_->allocate_free(pool_->default_space(), requested, stream.number); });
  if (block == nullptr) return std::nullopt;
  return Lease(shared_from_this(), block, requested, stream, sharing_.is_default_space);
}

std::optional<Lease> LivePool::allocate(Bytes requested, const StreamName& stream, Shortage& shortage,
                                        std::optional<bool> is_shareable, bool is_single) {
  const bool captures = is_capturing(stream);
  auto lock = open_lock();
  const StreamId number = waiting(lock, [&] { return number_of(stream); });
  const Naming naming(events_, number);
  const auto choose = [&]() -> Space& {
    const auto graph_pool = graph_pool_for(stream.handle);
    const bool wants_shareable = is_shareable.value_or(sharing_.is_default_space && !graph_pool);
    if (captures && !graph_pool)
      throw Error(ErrorKind::invalid_argument,
                  "the stream is capturing a graph, which will use its addresses at every launch, so the memory must "
                  "come from a graph pool; allocate inside `with pool.graph_pool():`, or before the capture");
    if (graph_pool && (wants_shareable || is_single))
      throw Error(ErrorKind::invalid_argument, std::string("memory of a graph pool cannot be ") +
                                                   (is_single ? "one handle" : "shared with other processes") +
                                                   "; allocate it before the capture");
    if (graph_pool) return graph_space(*graph_pool, number);
    if (is_single && wants_shareable && !single_space().is_exportable()) space_for(true);  // says why not
    return is_single ? single_space() : space_for(wants_shareable);
  };
  if (requested.count == 0) {
    choose();
    return Lease(shared_from_this(), streams_.known(number));
  }
  Block* block = allocate_waiting(lock, choose, requested, number);
  if (block != nullptr)
    return Lease(shared_from_this(), block, requested, streams_.known(number), exporting_space(*block) != nullptr);
  shortage = shortage_locked();
  return std::nullopt;
}

bool LivePool::preallocate(Bytes size, const StreamName& stream, Shortage& shortage) {
  if (is_capturing(stream))
    throw Error(
        ErrorKind::invalid_argument,
        "the stream is capturing a graph, so no memory can be taken for it in advance; do it before the capture");
  auto lock = open_lock();
  const StreamId number = waiting(lock, [&] { return number_of(stream); });
  const Naming naming(events_, number);
  RequestRow row;
  if (size.count == 0 ||
      without_refused_features([&] { return waiting(lock, [&] { return pool_->preallocate(size, number, &row); }); })) {
    pool_->count_due_retry(row);
    return true;
  }
  shortage = shortage_locked();
  return false;
}

void LivePool::release_cached() {
  auto lock = open_lock();
  waiting(lock, [&] {
    pool_->release_cached();
    return true;
  });
}

}  // namespace memlake
