#pragma once

// PoolWatchers: what programs asked a pool to count and to tell beside its own figures. No program watches most pools,
// so a report costs one comparison until there is a watch.

#include <functional>
#include <memory>

#include "pool/pool_spaces.hpp"
#include "pool/pool_watch.hpp"

namespace memlake {

class PoolWatchers {
 public:
  explicit PoolWatchers(PoolSpaces& spaces) : spaces_(spaces) {}

  /// Counts PyTorch's statistics by size from now on, beginning with the present state.
  void count_by_size();
  /// The counts, up to date; null before count_by_size().
  [[nodiscard]] SizeCounts* size_counts();
  /// The counts without those that only a walk over the blocks tells; null before count_by_size().
  [[nodiscard]] SizeCounts* size_counts_at_once() { return watch_ == nullptr ? nullptr : watch_->counts.get(); }
  /// Calls `tell` for every change of the memory; empty: ends it.
  void observe(std::function<void(const MemoryEvent&)> tell);

  // The changes of blocks that are reported. The spaces report the changes of their memory themselves.

  void on_hand_out(const Block& block) {
    if (watch_ != nullptr) [[unlikely]]
      watch_->on_hand_out(block);
  }
  void on_free(const Block& block) {
    if (watch_ != nullptr) [[unlikely]]
      watch_->on_free(block);
  }
  void on_free_again(const Block& block) {
    if (watch_ != nullptr) [[unlikely]]
      watch_->on_free_again(block, spaces_.of(block));
  }
  /// To be called after a request that may have changed how segments are cut.
  void on_search() {
    if (watch_ != nullptr) count_splits();
  }

 private:
  /// The watch, made on first use.
  PoolWatch& watch();
  void end_watch_if_unused();
  /// Brings the counts that need a look at every block up to date.
  void count_splits();

  PoolSpaces& spaces_;
  std::unique_ptr<PoolWatch> watch_;  // null: no program watches
};

}  // namespace memlake
