#pragma once

// Pool: one device's memory under one policy. Drives a request down the line: rounding, a free block or the policy's
// ladder, cutting, counting. The only place that counts. Not thread-safe: the lock is the caller's (live/, C ABI).

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "blocks/lone_addresses.hpp"
#include "policy/policy.hpp"
#include "pool/event_source.hpp"
#include "pool/failure.hpp"
#include "pool/pool_stats.hpp"
#include "pool/row_log.hpp"
#include "pool/segments.hpp"

namespace memlake {

class Pool {
 public:
  /// `limit`: what may be held; the largest number for no limit.
  Pool(std::shared_ptr<Device> device, std::unique_ptr<Policy> policy, EventSource& events, Bytes limit);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  /// A live block of at least `requested` bytes for work on `stream`; null if there is no memory for it, and then
  /// failure() says why.
  Block* allocate(Bytes requested, StreamId stream);
  /// The same, but only if it needs no driver call: null says nothing about the memory.
  Block* allocate_cached(Bytes requested, StreamId stream);

  /// The caller gives a live block back, in the order of the stream that it was allocated for.
  void free(Block* block) { free(block, block->user); }
  /// In the order of another stream: the caller promises that its work is behind all earlier work on the block.
  void free(Block* block, StreamId stream);
  /// Whether free(block, stream) will make no driver call.
  [[nodiscard]] bool frees_at_once(const Block& block, StreamId stream) const;

  /// Work on another stream uses the block: once freed, it waits for that stream.
  void record_use(Block* block, StreamId stream);

  /// Makes sure that one free block of `size` bytes is there for the stream. False if there is no memory for it.
  bool preallocate(Bytes size, StreamId stream);
  /// Gives free memory back to the driver as long as at least `keep` bytes stay held. Waits for no event.
  void trim(Bytes keep);
  /// Gives addresses back that nothing was ever mapped to: a request that failed may leave some, as PyTorch's do.
  void release_bare_addresses();
  /// Gives everything that is free back to the driver, after waiting for all events.
  void release_cached();

  void set_limit(Bytes limit) { limit_ = limit; }
  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] Bytes device_total() const { return device_total_; }

  const PoolStats& stats() const noexcept { return stats_; }
  void reset_peaks() {
    stats_.reset_peaks();
    held_peak_seen_ = stats_.held.now;
  }
  const BlockMap& blocks() const noexcept { return blocks_; }
  const std::vector<std::unique_ptr<SegmentMemory>>& segments() const noexcept { return segments_; }
  /// About the request that was refused last.
  const Failure& failure() const noexcept { return failure_; }
  [[nodiscard]] Bytes largest_free() const;
  [[nodiscard]] std::vector<std::pair<StreamId, Bytes>> pending_on() const;

  /// From now on every operation is written to `log`; null ends it. Blocks that live now are its first rows.
  void write_to(RowLog* log);

  /// Verifies I1 to I8. The sentence of the first that broke, beginning with its name; nothing if all hold.
  [[nodiscard]] std::optional<std::string> find_broken_invariant() const;

 private:
  struct Awaited {
    EventSource::Ticket ticket;
    Block* block;
    bool is_reusable_here;  ///< was freed in the order of this stream, so a request of this stream may have it at once
  };

  [[nodiscard]] PoolView view() const;
  Block* climb(Attempt& attempt);
  Block* hand_out(Block* block, Bytes requested, Bytes rounded, StreamId user);
  Block* take_over(Bytes requested, Bytes rounded, StreamId stream);
  void make_free(Block* block);
  void poll_events();
  void wait_for_events();
  void settle(const Awaited& awaited);
  void count_held_peak();
  [[nodiscard]] Failure describe(const Attempt& attempt) const;
  void note(RowLog::Op op, std::uint64_t id, Bytes bytes, StreamId stream) {
    if (log_ != nullptr) log_->add(op, id, bytes, stream);
  }

  // The executor: carries steps out. False if the driver has no memory for it; other errors pass.
  void run(const Step& step, Attempt& attempt);
  Block* add_segment(std::unique_ptr<SegmentMemory> memory, const Step& step, const Attempt& attempt);
  Block* map(Block* unmapped, Bytes size);
  void release(const std::vector<Block*>& victims);
  void release_segment(Block* block);
  /// Takes the memory from whole pages of the block, from `most` bytes at most.
  void unmap(Block* block, Bytes most);

  std::shared_ptr<Device> device_;
  std::unique_ptr<Policy> policy_;
  EventSource& events_;
  Bytes limit_;
  Bytes device_total_;
  BlockMap blocks_;
  std::vector<std::unique_ptr<SegmentMemory>> segments_;  // found by a block's `memory`
  std::uint64_t segments_made_ = 0;
  LoneAddresses lone_addresses_;
  std::vector<std::deque<Awaited>> awaited_;  // by stream, oldest first
  std::size_t awaited_count_ = 0;
  std::size_t reusable_here_ = 0;  // of those
  std::uint64_t live_digest_ = 0;  // of the blocks that are live or pending; see pool_check.cpp
  Bytes held_peak_seen_;
  PoolStats stats_;
  Failure failure_{};
  RowLog* log_ = nullptr;
};

}  // namespace memlake
