#pragma once

// DirectRules: nothing is cached. Every request is one driver allocation, every free releases it: the naive baseline.

#include "policies/segments/segment_rules.hpp"

namespace memlake {

class DirectRules final : public SegmentRules {
 public:
  [[nodiscard]] Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const override;
  [[nodiscard]] Bytes round(Bytes requested) const override;
  [[nodiscard]] bool is_small(Bytes rounded) const override;
  [[nodiscard]] Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const override;
  [[nodiscard]] Ladder ladder() const override;
  Step next(Climb& climb, const SegmentView& view) const override;
  [[nodiscard]] bool splits(const Block& block, Bytes rounded) const override;
  [[nodiscard]] bool keeps_freed_memory() const override { return false; }
  void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const override;
};

}  // namespace memlake
