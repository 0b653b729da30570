#pragma once

// PoolSabotage: opens the bookkeeping of a pool to tests that break it.

#include "guards.hpp"
#include "pool/pool.hpp"

namespace memlake::test {

struct PoolSabotage {
  Pool& pool;

  [[nodiscard]] std::size_t& awaited_count() const { return pool.pending_.count_; }
  [[nodiscard]] std::size_t& reusable_here() const { return pool.pending_.reusable_count_; }
  [[nodiscard]] PoolStats& stats() const { return pool.figures_.stats_; }
  [[nodiscard]] Bytes& held_by_budget() const { return pool.spaces_.budget()->held.now; }

  /// An event of a stream is awaited for one more block.
  [[nodiscard]] Mend await(StreamId stream, Block& block) const {
    auto& queue = pool.pending_.queues_.at(stream);
    queue.push_back({queue.front().ticket, &block, false});
    ++pool.pending_.count_;
    return [pool = &pool, &queue] {
      queue.pop_back();
      --pool->pending_.count_;
    };
  }
};

}  // namespace memlake::test
