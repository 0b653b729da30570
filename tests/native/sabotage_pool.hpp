#pragma once

// PoolSabotage: opens the bookkeeping of a pool to tests that break it.

#include "guards.hpp"
#include "pool/pool.hpp"

namespace memlake::test {

struct PoolSabotage {
  Pool& pool;

  [[nodiscard]] std::size_t& awaited_count() const { return pool.awaited_count_; }
  [[nodiscard]] std::size_t& reusable_here() const { return pool.reusable_here_; }
  [[nodiscard]] PoolStats& stats() const { return pool.stats_; }
  [[nodiscard]] Bytes& held_by_budget() const { return pool.budget()->held.now; }

  /// An event of a stream is awaited for one more block.
  [[nodiscard]] Mend await(StreamId stream, Block& block) const {
    auto& queue = pool.awaited_.at(stream);
    queue.push_back({queue.front().ticket, &block, false});
    ++pool.awaited_count_;
    return [pool = &pool, &queue] {
      queue.pop_back();
      --pool->awaited_count_;
    };
  }
};

}  // namespace memlake::test
