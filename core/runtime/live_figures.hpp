#pragma once

// LiveFigures: what a live pool counts and shows: its statistics, its blocks, and events for programs that watch it.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/found_block.hpp"
#include "runtime/locked_pool.hpp"
#include "runtime/snapshot.hpp"

namespace memlake {

/// All figures of a pool at one moment.
struct LiveStats {
  PoolStats pool;
  Bytes limit;
  Bytes largest_free;
  std::uint64_t live_count = 0;
  std::uint64_t pending_count = 0;
  std::uint64_t segment_count = 0;
  std::uint64_t host_waits = 0;
  double modelled_us = 0;
  std::vector<std::pair<const char*, std::uint64_t>> calls;  ///< by CUDA name; only those that were made
  std::vector<Counter> policy_counters;                      ///< figures that only this policy has

  struct OfStream {
    CUstream stream = nullptr;
    Bytes live;
    Bytes pending;
    Bytes free;
  };
  std::vector<OfStream> streams;  ///< those that have memory
  std::vector<Bytes> held_on;     ///< by device; empty if the memory of the pool lies on the host
};

/// PyTorch's statistics of a pool; the totals and numbers since reset_totals().
struct LiveCounts {
  SizeCounts sizes;
  std::uint64_t retries = 0;
  std::uint64_t ooms = 0;
  std::uint64_t device_allocations = 0;
  std::uint64_t device_frees = 0;
  std::uint64_t host_waits = 0;
  Bytes largest_free;
};

/// An event as an observer outside the pool gets it.
struct LiveEvent {
  MemoryEvent::Kind kind;
  AddressRange range;
  CUstream stream;
  GraphPoolId graph_pool;  ///< whose memory it is
};

class LiveFigures {
 public:
  explicit LiveFigures(LockedPool& locked) : locked_(locked) {}

  [[nodiscard]] LiveStats stats() const;
  /// The figures of stats() that need no walk over the blocks and no sums over driver calls. The others are 0 or empty.
  [[nodiscard]] LiveStats totals() const;
  /// The streams of stats(). It walks over all blocks.
  [[nodiscard]] std::vector<LiveStats::OfStream> by_stream() const;
  [[nodiscard]] Snapshot snapshot() const;
  /// All blocks that have memory, in the order of their addresses.
  [[nodiscard]] std::vector<FoundBlock> blocks() const;
  /// Bytes held now; cheaper than stats().
  [[nodiscard]] Bytes held() const;
  /// Whether at least `mark` is held now, and less was held at some time since this last returned true. Of several
  /// threads, only one gets true.
  bool has_risen_to(Bytes mark);

  void reset_peaks();
  void reset_held_peak();
  void reset_active_peak();
  /// The peak of live and pending memory since the last call.
  Bytes take_recent_peak();

  // For watchers (live_watch.cpp); see Pool.

  void count_by_size();
  /// Error(config) before count_by_size().
  [[nodiscard]] LiveCounts counts();
  /// From now on the peaks of counts() are those of the pool and of what is outside it. Error(config) before
  /// count_by_size().
  void count_outside(const SizeLevels& outside);
  /// The numbers of counts() begin at 0 again, and those of stats_since_reset().
  void reset_totals();
  /// The figures of stats() without a walk over the blocks, with the numbers since reset_totals().
  [[nodiscard]] PoolStats stats_since_reset(Bytes& limit) const;
  /// Calls `tell` for each event under the lock; empty: ends it. When it returns, no call of an earlier one is under
  /// way.
  void observe(std::function<void(const LiveEvent&)> tell);

 private:
  // pre: the lock is held.

  [[nodiscard]] LiveStats totals_now() const;
  /// Adds the figures that need a walk over the blocks.
  void add_blocks_to(LiveStats& stats) const;
  /// The numbers of counts() since the pool was made, without its sizes.
  [[nodiscard]] LiveCounts numbers() const;

  LockedPool& locked_;
  LiveCounts before_reset_;       // the numbers at the last reset_totals()
  PoolStats stats_before_reset_;  // likewise
};

}  // namespace memlake
