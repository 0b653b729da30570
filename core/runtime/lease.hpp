#pragma once

// Lease: the owner of one allocation of a live pool. Its destructor frees the block. It keeps the pool alive until
// leave_pool().

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
#include "vmm/mapped_parts.hpp"

namespace memlake {

class LivePool;
struct ExportedBlock;

class Lease {
 public:
  /// An empty lease: 0 bytes, address 0, no block to free.
  Lease(std::shared_ptr<LivePool> pool, KnownStream stream)
      : pool_(pool.get()), keeper_(std::move(pool)), stream_(stream) {}
  Lease(std::shared_ptr<LivePool> pool, Block* block, Bytes requested, KnownStream stream, bool is_shareable)
      : pool_(pool.get()),
        keeper_(std::move(pool)),
        block_(block),
        address_(block->address),
        requested_(requested),
        stream_(stream),
        is_shareable_(is_shareable) {}
  /// pre: `other` is not pinned.
  Lease(Lease&& other) noexcept
      : pool_(other.pool_),
        keeper_(std::move(other.keeper_)),
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
  /// The stream for which it was allocated. Error(closed) if that stream was destroyed.
  [[nodiscard]] StreamName stream_name() const;
  [[nodiscard]] bool is_on_default_stream() const;
  /// Null after leave_pool().
  const std::shared_ptr<LivePool>& pool() const noexcept { return keeper_; }
  /// Whether the pool has nothing of it any more: it was closed, and no pin keeps its memory.
  [[nodiscard]] bool is_over() const noexcept {
    return !is_open() && (block_ == nullptr ? pins_.load() == 0 : is_freed_.load(std::memory_order_acquire));
  }
  /// From now on it does not keep the pool alive. pre: is_over(). A thread that uses the lease meanwhile must have its
  /// own share of the pool.
  [[nodiscard]] std::shared_ptr<LivePool> leave_pool() noexcept { return std::move(keeper_); }
  [[nodiscard]] bool is_of(KnownStream stream) const noexcept { return stream_ == stream; }

  /// Whether its memory can be shared with other processes.
  [[nodiscard]] bool is_shareable() const noexcept { return is_shareable_; }
  /// Its pieces in order, each with its device's number and its size. The number after the last device means the host.
  [[nodiscard]] std::vector<std::pair<std::size_t, Bytes>> pieces() const;
  /// Whether its pool has its memory on the host. It also answers for an empty lease, which has no pieces.
  [[nodiscard]] bool is_of_host_pool() const;
  /// The handles under it, by address; none for memory that has no handles.
  [[nodiscard]] std::vector<MappedPart> handles() const;
  /// Whether no more than one handle is under it.
  [[nodiscard]] bool is_one_handle() const;
  /// Changes when other chunks are mapped at its addresses: two leases with the same address and generation have the
  /// same memory.
  [[nodiscard]] std::uint64_t generation() const;

  /// New descriptors of its chunks, for other processes. From now on its memory is released when it is freed. Error
  /// (invalid_argument) unless it was allocated as shareable.
  [[nodiscard]] ExportedBlock export_memory() const;

  /// Keeps the memory allocated until unpin() is called as often, even after close(). Error(closed) after close().
  void pin();
  /// Error(invalid_free) if it is not pinned. The last unpin() frees the memory if the lease was closed meanwhile.
  void unpin();
  [[nodiscard]] bool is_pinned() const { return pins_.load() > 0; }

  /// Work on another stream uses the memory.
  void record_use(const StreamName& stream);

  /// Frees it without a driver call and without waiting; false if that is not possible now. Throws like close().
  bool close_at_once();
  /// Frees it in the order of its own stream. Error(invalid_free) if it was closed before.
  void close();
  /// Frees it in the order of `stream`, which must be ordered behind all earlier work on the memory.
  void close(const StreamName& stream);
  /// Frees it in the order of a stream that LivePool::known_stream() gave; false if that stream has ended, and nothing
  /// was changed.
  bool close(KnownStream stream);

 private:
  /// Locks the pool while the lease is open: a thread that closes the lease came before, or waits for the lock.
  [[nodiscard]] std::unique_lock<Lock> lock_open() const;
  /// Frees the block, or leaves that to the last unpin().
  void give_up(StreamId stream);
  /// False if the block needs a driver call, or is pinned.
  bool free_at_once();
  /// pre: the lock is held, unless can_undo() is false. Then this does nothing.
  void free_locked(StreamId stream);
  /// For a caller that cannot try again and names no stream: streams of other libraries may be gone by now.
  void free_dropped(StreamId stream);
  /// Frees as free_dropped() does. pre: as for free_locked().
  void free_dropped_locked(StreamId stream);

  LivePool* const pool_;
  std::shared_ptr<LivePool> keeper_;  // of *pool_; null after leave_pool()
  Block* block_ = nullptr;
  Address address_;
  Bytes requested_;
  KnownStream stream_;
  bool is_shareable_ = false;
  Ownership ownership_;
  // Both change only with the pool's lock held.
  std::atomic<std::uint32_t> pins_{0};
  std::optional<StreamId> closed_on_;  // set if closed while pinned: the stream in whose order it will be freed
  std::atomic<bool> is_freed_{false};  // the block went back to the pool
};

}  // namespace memlake
