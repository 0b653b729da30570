#pragma once

// PoolGraphs: the graph pools of a pool. Each has the memory of graphs, in spaces of its own.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>

#include "policies/invariant_report.hpp"
#include "pool/pool_spaces.hpp"

namespace memlake {

class PoolGraphs {
 public:
  explicit PoolGraphs(PoolSpaces& spaces) : spaces_(spaces) {}

  using SpaceMaker = std::function<std::unique_ptr<Space>(std::shared_ptr<GraphPool>)>;

  [[nodiscard]] bool has_any() const noexcept { return !graph_pools_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return graph_pools_.begin(); }
  [[nodiscard]] auto end() const noexcept { return graph_pools_.end(); }
  /// Null if no graph uses it and none of its memory is left.
  [[nodiscard]] const GraphPool* find(GraphPoolId id) const;
  /// One more graph uses the graph pool. The first one makes it, or takes it back before its memory is gone.
  void use(GraphPoolId id);
  /// A graph gives it up. Returns whether it was the last one. Error(invalid_free) if no graph uses it.
  bool give_up(GraphPoolId id);
  /// Whether a graph may have captured memory of it. While none has, its free memory is its own cache: a request to it
  /// that is short of memory releases it, and so does release_cached(). A new graph pool counts as captured. pre: a
  /// graph uses it.
  void set_captured(GraphPoolId id, bool is_captured);
  /// How many no graph uses any more, and the host must wait before their memory is released.
  [[nodiscard]] std::size_t ended_that_may_run() const;
  /// The space of the graph pool on a device of the pool; `make` makes it if there is none. pre: a graph uses it.
  Space& space(GraphPoolId id, std::size_t device_number, const SpaceMaker& make);
  /// Removes graph pools that are released and hold nothing, with their spaces; `before` is called with each space.
  void remove_ended(const std::function<void(const Space&)>& before);

  [[nodiscard]] Bytes held_by(const GraphPool& graph_pool) const;
  /// The memory that all of them hold.
  [[nodiscard]] Bytes held() const;
  /// Free memory that graphs use, except that of one space.
  [[nodiscard]] Bytes kept(const Space* except) const;
  /// Whether no graph uses the graph pool, and a block that was freed there waits for a stream.
  [[nodiscard]] bool has_pending(GraphPoolId id) const;

  void check(InvariantReport& report) const;

 private:
  PoolSpaces& spaces_;
  std::map<GraphPoolId, std::shared_ptr<GraphPool>> graph_pools_;
};

}  // namespace memlake
