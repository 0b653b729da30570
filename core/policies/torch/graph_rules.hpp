#pragma once

// GraphRules: how the memory of a graph pool is cut and kept. As in PyTorch, a graph pool is a caching allocator of its
// own. Unlike other memory, none of it is released while a graph may use it, and the limit of the pool bounds every
// page. As long as no graph has captured it, its free pages serve its own requests wherever they lie.

#include <memory>
#include <utility>

#include "policies/graph_pool.hpp"
#include "policies/space.hpp"
#include "policies/torch/torch_rules.hpp"

namespace memlake {

class GraphRules final : public SegmentRules {
 public:
  GraphRules(const TorchOptions& options, std::shared_ptr<const GraphPool> graph_pool)
      : torch_(options), graph_pool_(std::move(graph_pool)) {}

  [[nodiscard]] Growth growth(const Attempt& attempt, const SegmentView& view, Bytes device_free) const override {
    return torch_.growth(attempt, view, device_free);
  }
  [[nodiscard]] Bytes round(Bytes requested) const override { return torch_.round(requested); }
  [[nodiscard]] bool is_small(Bytes rounded) const override { return torch_.is_small(rounded); }
  [[nodiscard]] Block* find(Bytes rounded, StreamId stream, BlockGroup& group) const override {
    return torch_.find(rounded, stream, group);
  }
  [[nodiscard]] Ladder ladder() const override;
  Step next(Climb& climb, const SegmentView& view) const override;
  [[nodiscard]] bool splits(const Block& block, Bytes rounded) const override { return torch_.splits(block, rounded); }
  [[nodiscard]] bool maps_its_memory() const override { return torch_.maps_its_memory(); }
  /// Nothing while a graph may use the memory.
  void choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const override;

 private:
  TorchRules torch_;
  std::shared_ptr<const GraphPool> graph_pool_;
};

/// A space for memory of the graph pool on one device. `policy`: the space of the pool's policy, which says how.
/// `devices`: those of the pool. Error(config) if the pool's memory lies on the host.
std::unique_ptr<Space> make_graph_space(const Space& policy, const Devices& devices, std::size_t device_number,
                                        EventSource& events, std::shared_ptr<GraphPool> graph_pool);

}  // namespace memlake
