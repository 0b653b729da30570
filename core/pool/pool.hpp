#pragma once

// Pool: one device's memory under one policy. Drives a request down the line: rounding, a free block or the policy's
// ladder, cutting, counting. The only place that counts. Not thread-safe: the lock is the caller's (bindings, C ABI).

#include <deque>
#include <memory>
#include <vector>

#include "policy/policy.hpp"
#include "pool/event_source.hpp"
#include "pool/pool_stats.hpp"
#include "pool/segments.hpp"

namespace memlake {

class Pool {
 public:
  /// `limit`: what may be held; the largest number for no limit.
  Pool(std::shared_ptr<Device> device, std::unique_ptr<Policy> policy, EventSource& events, Bytes limit);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  /// A live block of at least `requested` bytes for work on `stream`; null if there is no memory for it.
  Block* allocate(Bytes requested, StreamId stream);
  /// The caller gives a live block back.
  void free(Block* block);
  /// Work on another stream uses the block: once freed, it waits for that stream.
  void record_use(Block* block, StreamId stream);
  /// Gives everything that is free back to the driver, after waiting for all events.
  void release_cached();

  const PoolStats& stats() const noexcept { return stats_; }
  const BlockMap& blocks() const noexcept { return blocks_; }

 private:
  struct Awaited {
    EventSource::Ticket ticket;
    Block* block;
  };

  [[nodiscard]] PoolView view() const;
  Block* climb(Attempt& attempt);
  Block* hand_out(Block* block, Bytes requested, Bytes rounded);
  void make_free(Block* block);
  void poll_events();
  void wait_for_events();
  void settle(const Awaited& awaited);

  // The executor: carries steps out. False if the driver has no memory for it; other errors pass.
  void run(const Step& step, Attempt& attempt);
  Block* add_segment(std::unique_ptr<SegmentMemory> memory, const Attempt& attempt, BlockState state);
  Block* map(Block* unmapped, Bytes size);
  void release(const std::vector<Block*>& victims);
  void release_segment(Block* block);
  void unmap(Block* block);

  std::shared_ptr<Device> device_;
  std::unique_ptr<Policy> policy_;
  EventSource& events_;
  Bytes limit_;
  Bytes device_total_;
  BlockMap blocks_;
  std::vector<std::unique_ptr<SegmentMemory>> segments_;  // found by a block's `memory`
  std::uint64_t segments_made_ = 0;
  std::vector<std::deque<Awaited>> awaited_;  // by stream, oldest first
  std::size_t awaited_count_ = 0;
  PoolStats stats_;
};

}  // namespace memlake
