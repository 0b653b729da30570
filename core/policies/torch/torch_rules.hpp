#pragma once

// TorchRules: PyTorch's caching allocator and its expandable segments, reproduced to the byte (docs/design/ says how
// this is verified). Both are one class, as in PyTorch: they differ in the source of new memory and a few comparisons.

#include <optional>

#include "policies/segments/segment_rules.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake {

/// Whether an expandable segment can use the block for a request: it is free, or still without memory.
inline bool is_allocatable(const Block* block) {
  return block != nullptr && (block->state == BlockState::free || block->state == BlockState::unmapped);
}

class TorchRules final : public SegmentRules {
 public:
  explicit TorchRules(const TorchOptions& options) : options_(options) {}

  [[nodiscard]] Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const override;
  [[nodiscard]] Bytes round(Bytes requested) const override;
  [[nodiscard]] bool is_small(Bytes rounded) const override;
  [[nodiscard]] Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const override;
  [[nodiscard]] Ladder ladder() const override;
  Step next(Climb& climb, const SegmentView& view) const override;
  [[nodiscard]] bool splits(const Block& block, Bytes rounded) const override;
  void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const override;
  [[nodiscard]] bool maps_its_memory() const override { return options_.is_expandable; }
  [[nodiscard]] std::unique_ptr<SegmentRules> for_graphs(std::shared_ptr<const GraphPool> graph_pool) const override;
  [[nodiscard]] bool collects_garbage() const override { return options_.garbage_collection_threshold > 0; }
  [[nodiscard]] std::vector<const Block*> garbage(const BlockMap& blocks) const override;

 private:
  /// The next step towards new memory; std::nullopt if the limit forbids it.
  [[nodiscard]] std::optional<Step> grow(const Climb& climb, const SegmentView& view) const;
  [[nodiscard]] Step grow_expandable(const Climb& climb, const SegmentView& view) const;
  [[nodiscard]] bool choose_garbage(const SegmentView& view, std::vector<Block*>& victims) const;
  /// Chooses oversize blocks of the stream; true if they are enough for the request.
  [[nodiscard]] bool choose_available(const Climb& climb, std::vector<Block*>& victims) const;

  TorchOptions options_;
};

}  // namespace memlake
