#pragma once

// Lease: one allocation of a live pool, owned. Dropping it frees the block; the pool lives at least as long.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.hpp"
#include "base/ownership.hpp"
#include "blocks/block.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class LivePool;
struct ExportedBlock;

class Lease {
 public:
  /// An empty one: no bytes, address 0, nothing to free.
  Lease(std::shared_ptr<LivePool> pool, StreamId stream) : pool_(std::move(pool)), stream_(stream) {}
  Lease(std::shared_ptr<LivePool> pool, Block* block, Bytes requested, StreamId stream, bool is_shareable)
      : pool_(std::move(pool)),
        block_(block),
        address_(block->address),
        requested_(requested),
        stream_(stream),
        is_shareable_(is_shareable) {}
  /// pre: `other` is not pinned.
  Lease(Lease&& other) noexcept
      : pool_(std::move(other.pool_)),
        block_(std::exchange(other.block_, nullptr)),
        address_(other.address_),
        requested_(other.requested_),
        stream_(other.stream_),
        is_shareable_(other.is_shareable_),
        ownership_(std::move(other.ownership_)) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  [[nodiscard]] bool is_open() const noexcept { return ownership_.is_held(); }
  /// Throws Error(closed) after close().
  void require_open() const;
  [[nodiscard]] Address address() const noexcept { return address_; }
  [[nodiscard]] Bytes size() const noexcept { return requested_; }
  /// The stream it was allocated for. Error(closed) if that stream was destroyed.
  [[nodiscard]] StreamName stream_name() const;
  const std::shared_ptr<LivePool>& pool() const noexcept { return pool_; }

  /// Whether other processes may be given its memory.
  [[nodiscard]] bool is_shareable() const noexcept { return is_shareable_; }
  /// Its bytes in order, by the number of the device that they lie on; the number of devices means: the host.
  [[nodiscard]] std::vector<std::pair<std::size_t, Bytes>> pieces() const;
  /// Changes when other chunks come to lie behind an address: two leases of one address with one generation have the
  /// same memory.
  [[nodiscard]] std::uint64_t generation() const;

  /// New descriptors of its chunks, for other processes. From now on its memory is released when it is freed. Error
  /// (invalid_argument) unless it was allocated as shareable.
  [[nodiscard]] ExportedBlock export_memory() const;

  /// Until it is unpinned as often, its memory stays as it is, also behind close(). Error(closed) after close().
  void pin();
  /// Error(invalid_free) if it is not pinned. The last one frees it if it was closed meanwhile.
  void unpin();
  [[nodiscard]] bool is_pinned() const { return pins_.load() > 0; }

  /// Work on another stream uses it.
  void record_use(const StreamName& stream);

  /// Without a driver call and without waiting; false if that is not possible now. Throws like close().
  bool close_at_once();
  /// Frees it in the order of its own stream. Error(invalid_free) if it was closed before.
  void close();
  /// Frees it in the order of `stream`, whose work must be behind all earlier work on it.
  void close(const StreamName& stream);

 private:
  /// The pool's lock while the lease is open: whoever closes it comes before, or waits.
  [[nodiscard]] std::unique_lock<Lock> lock_open() const;
  /// Frees the block, or leaves that to the last unpin().
  void give_up(StreamId stream);
  /// For the destructor.
  void free_or_wait(StreamId stream);

  std::shared_ptr<LivePool> pool_;
  Block* block_ = nullptr;
  Address address_;
  Bytes requested_;
  StreamId stream_;
  bool is_shareable_ = false;
  Ownership ownership_;
  // Both change only with the pool's lock held.
  std::atomic<std::uint32_t> pins_{0};
  std::optional<StreamId> closed_on_;  // closed while pinned: in whose order it will be freed
};

}  // namespace memlake
