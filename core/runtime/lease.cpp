#include "runtime/lease.hpp"

#include <algorithm>

#include "runtime/block_pieces.hpp"
#include "runtime/live_pool.hpp"
#include "runtime/stream_numbers.hpp"

namespace memlake {

namespace {

constexpr const char* kNoun = "the buffer";

}  // namespace

Lease::~Lease() {
  if (closed_on_ && !is_exiting()) {
    // Nobody is left to unpin it.
    try {
      free_dropped(*closed_on_);
    } catch (const Error& error) {
      report_undo_failure(error);
    }
  }
  ownership_.end_quietly([this] {
    if (block_ != nullptr) free_dropped(stream_.number);
  });
}

void Lease::require_open() const { ownership_.require(kNoun); }

std::unique_lock<Lock> Lease::lock_open() const {
  require_open();
  auto lock = pool_->locked_.open_lock();
  require_open();
  return lock;
}

ExportedBlock Lease::export_memory() const {
  const auto lock = lock_open();
  if (block_ == nullptr)
    throw Error(ErrorKind::invalid_argument, "the buffer is empty: there is no memory that could be shared");
  return std::move(pool_->sharing_.export_blocks({block_}).front());
}

StreamName Lease::stream_name() const {
  require_open();
  return name_of(pool_->locked_, stream_);
}

bool Lease::is_on_default_stream() const { return is_default_stream(pool_->locked_, stream_.number); }

std::vector<std::pair<std::size_t, Bytes>> Lease::pieces() const {
  const auto lock = lock_open();
  if (block_ == nullptr) return {};
  return pieces_of(pool_->locked_.pool().spaces().of(*block_), *block_, requested_);
}

bool Lease::is_of_host_pool() const {
  const auto lock = lock_open();
  return pool_->locked_.pool().spaces().policy().devices().location() != Location::device;
}

std::vector<MappedPart> Lease::handles() const {
  const auto lock = lock_open();
  const Devices& devices = pool_->locked_.devices();
  if (block_ == nullptr || !devices.front()->features().has(Feature::virtual_memory)) return {};
  Bytes granule = devices.front()->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  for (const auto& device : devices) granule = std::min(granule, device->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return mapped_parts(*devices.front(), {address_, requested_}, granule);
}

bool Lease::is_one_handle() const {
  const auto lock = lock_open();
  const Devices& devices = pool_->locked_.devices();
  if (block_ == nullptr || !devices.front()->features().has(Feature::virtual_memory)) return true;
  return memlake::is_one_handle(*devices.front(), {address_, requested_});
}

std::uint64_t Lease::generation() const {
  const auto lock = lock_open();
  return block_ == nullptr ? 0 : pool_->locked_.pool().spaces().of(*block_).generation(*block_);
}

void Lease::pin() {
  // close() gives up the ownership before it takes the lock to look at the pins. So a pin that finds the lease open
  // under the lock is seen there, and one that comes too late finds it closed.
  require_open();  // the pool of a closed one may be gone
  pool_->locked_.with_lock([this] {
    require_open();
    pins_.fetch_add(1);
  });
}

void Lease::unpin() {
  const auto require_pinned = [this] {
    if (pins_.load() == 0) throw Error(ErrorKind::invalid_free, "the buffer is not pinned");
  };
  require_pinned();  // the pool of a closed one may be gone
  pool_->locked_.with_lock([&] {
    require_pinned();
    if (pins_.fetch_sub(1) > 1 || !closed_on_) return;
    free_dropped_locked(*closed_on_);  // close() named its streams, and has returned
    closed_on_.reset();
    is_freed_.store(true, std::memory_order_release);
  });
}

void Lease::record_use(const StreamName& stream) {
  require_open();
  if (block_ == nullptr) return;
  const auto lock = lock_open();
  // The driver is asked now: found out when the buffer is freed, a handle without a stream would be too late.
  pool_->locked_.pool().record_use(block_, number_of(pool_->locked_, stream));
}

bool Lease::free_at_once() {
  LockedPool& locked = pool_->locked_;
  // Where nothing is left to undo, nothing is left to wait for either.
  if (!locked.can_undo()) return pins_.load() == 0;
  const auto lock = locked.try_lock_if_open();
  // The pins are read under the lock, because they change only there.
  if (!lock || pins_.load() > 0 || !locked.pool().frees_at_once(*block_, stream_.number)) return false;
  free_locked(stream_.number);
  return true;
}

void Lease::free_locked(StreamId stream) {
  LockedPool& locked = pool_->locked_;
  if (!locked.can_undo() || !locked.is_open()) return;
  locked.pool().free(block_, stream);
  locked.streams().table.touch(stream, locked.streams().events.progress().now());
}

void Lease::free_dropped_locked(StreamId stream) {
  LockedPool& locked = pool_->locked_;
  if (!locked.can_undo() || !locked.is_open()) return;
  locked.pool().free_finally(block_, stream, false);
  locked.streams().table.touch(stream, locked.streams().events.progress().now());
}

void Lease::free_dropped(StreamId stream) {
  pool_->locked_.with_lock([&] { free_dropped_locked(stream); });
}

bool Lease::close_at_once() {
  ownership_.take(kNoun);
  if (block_ == nullptr || free_at_once()) {
    is_freed_.store(true, std::memory_order_release);
    return true;
  }
  ownership_.give_back();
  return false;
}

void Lease::give_up(StreamId stream) {
  if (pins_.load() > 0) {
    closed_on_ = stream;  // the last unpin() frees it
  } else {
    free_locked(stream);
    is_freed_.store(true, std::memory_order_release);
  }
}

void Lease::close() {
  ownership_.end(kNoun, [this] {
    if (block_ != nullptr) pool_->locked_.with_lock([this] { give_up(stream_.number); });
  });
}

void Lease::close(const StreamName& stream) {
  ownership_.end(kNoun, [&] {
    if (block_ == nullptr) return;
    pool_->locked_.require_usable();
    pool_->locked_.with_lock([&] { give_up(number_of(pool_->locked_, stream)); });
  });
}

bool Lease::close(KnownStream stream) {
  bool is_current = true;
  ownership_.take(kNoun);
  try {
    if (block_ != nullptr) {
      pool_->locked_.require_usable();
      pool_->locked_.with_lock([&] {
        is_current = pool_->locked_.streams().table.is_current(stream);
        if (is_current) give_up(stream.number);
      });
    }
  } catch (...) {
    ownership_.give_back();
    throw;
  }
  if (!is_current) ownership_.give_back();
  return is_current;
}

}  // namespace memlake
