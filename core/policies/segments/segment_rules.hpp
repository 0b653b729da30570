#pragma once

// SegmentRules: decide how a space that cuts blocks out of segments meets a request. They touch nothing: SegmentSpace
// asks them for a block, on a miss for the next step, and carries each step out.

#include <optional>
#include <vector>

#include "policies/attempt.hpp"

namespace memlake {

/// What the pool knows and a policy may ask for.
struct PoolView {
  const BlockMap& blocks;
  Bytes held;
  Bytes device_total;
  Bytes limit;  ///< what may be held; the largest number if there is no limit
};

class SegmentRules {
 public:
  SegmentRules() = default;
  SegmentRules(const SegmentRules&) = delete;
  SegmentRules& operator=(const SegmentRules&) = delete;
  virtual ~SegmentRules() = default;

  [[nodiscard]] virtual Bytes round(Bytes requested) const = 0;
  [[nodiscard]] virtual bool is_small(Bytes rounded) const = 0;

  /// A free block for the request, or null: the fast path.
  [[nodiscard]] virtual Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const = 0;

  /// What to do next on a miss. The first call of an attempt has rung 0.
  virtual Step next(Attempt& attempt, const PoolView& view) const = 0;

  /// Is a block so much larger than the request that its rest becomes a block of its own?
  [[nodiscard]] virtual bool splits(const Block& block, Bytes rounded) const = 0;

  /// Does freed memory stay for the next request?
  [[nodiscard]] virtual bool keeps_freed_memory() const { return true; }
  /// Whether all its segments are expandable.
  [[nodiscard]] virtual bool maps_its_memory() const { return false; }

  /// Fills `victims` with everything that can be given back to the driver.
  virtual void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const = 0;
};

}  // namespace memlake
