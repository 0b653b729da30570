#pragma once

// Lease: one allocation of a live pool, owned. Dropping it frees the block; the pool lives at least as long.

#include <memory>
#include <utility>
#include <vector>

#include "base/ownership.hpp"
#include "blocks/block.hpp"
#include "live/stream_table.hpp"

namespace memlake {

class LivePool;

class Lease {
 public:
  /// An empty one: no bytes, address 0, nothing to free.
  Lease(std::shared_ptr<LivePool> pool, StreamId stream) : pool_(std::move(pool)), stream_(stream) {}
  Lease(std::shared_ptr<LivePool> pool, Block* block, Bytes requested, StreamId stream)
      : pool_(std::move(pool)), block_(block), address_(block->address), requested_(requested), stream_(stream) {}
  Lease(Lease&&) noexcept = default;
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

  /// Its bytes in order, by the number of the device that they lie on.
  [[nodiscard]] std::vector<std::pair<std::size_t, Bytes>> pieces() const;

  /// Work on another stream uses it.
  void record_use(const StreamName& stream);

  /// Without a driver call and without waiting; false if that is not possible now. Throws like close().
  bool close_at_once();
  /// Frees it in the order of its own stream. Error(invalid_free) if it was closed before.
  void close();
  /// Frees it in the order of `stream`, whose work must be behind all earlier work on it.
  void close(const StreamName& stream);

 private:
  std::shared_ptr<LivePool> pool_;
  Block* block_ = nullptr;
  Address address_;
  Bytes requested_;
  StreamId stream_;
  Ownership ownership_;
};

}  // namespace memlake
