#pragma once

// PoolFigures: the counters of a pool, and their peaks.

#include <utility>

#include "pool/pool_graphs.hpp"
#include "pool/pool_spaces.hpp"
#include "pool/pool_stats.hpp"

namespace memlake {

namespace test {
struct PoolSabotage;
}

class PoolFigures {
  friend struct test::PoolSabotage;  // breaks it, so that tests see what find_broken_invariant() reports

 public:
  PoolFigures(PoolSpaces& spaces, const PoolGraphs& graphs) : spaces_(spaces), graphs_(graphs) {}

  [[nodiscard]] PoolStats stats() const;
  /// What callers have, with slack; and the same with what streams still use.
  [[nodiscard]] Bytes allocated() const noexcept { return stats_.allocated.now; }
  [[nodiscard]] Bytes active() const noexcept { return stats_.active.now; }
  [[nodiscard]] Bytes requested() const noexcept { return stats_.requested.now; }

  void reset_peaks();
  /// Resets only the peak of held memory, or only that of live and pending memory.
  void reset_held_peak();
  void reset_active_peak();
  /// The peak of live and pending memory since the last call.
  Bytes take_recent_peak();

  // The events that are counted.

  void count_hand_out(const Space& space, const Block& block) {
    ++stats_.allocations;
    stats_.requested.add(block.requested);
    stats_.allocated.add(block.size);
    stats_.active.add(block.size);
    if (space.graph_pool() != nullptr) [[unlikely]]
      count_graph(space, block.size, {0});
  }
  /// The caller has given it back, whether it is free already or not.
  void count_free(const Block& block) {
    stats_.allocated.subtract(block.size);
    ++stats_.frees;
    if (graphs_.has_any()) [[unlikely]]
      count_graph(spaces_.of(block), {0}, block.size);
  }
  /// It is neither live nor pending any more.
  void count_free_again(const Block& block) {
    stats_.requested.subtract(block.requested);
    stats_.active.subtract(block.size);
  }
  void count_retry() { ++stats_.retries; }
  void count_refusal() { ++stats_.ooms; }
  /// The refusal of the last request is not counted.
  void uncount_refusal() { --stats_.ooms; }
  /// To be called after a request that may have made a new peak of held memory.
  void count_held_peak();

 private:
  /// A block of a graph pool comes into the hands of a caller, or leaves them.
  void count_graph(const Space& space, Bytes more, Bytes less);

  PoolSpaces& spaces_;
  const PoolGraphs& graphs_;
  PoolStats stats_;  // without held memory, which the budget counts; its active peak is that since take_recent_peak()
  Bytes held_peak_seen_;
  Bytes active_peak_before_;  // peak before the last take_recent_peak()
};

}  // namespace memlake
