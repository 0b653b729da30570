#pragma once

// Executable graphs: a copy of a graph's nodes in the order in which a launch runs them. Later changes of the graph do
// not change it; the program can change the parameters of its nodes, and switch copies and fills off.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graphs/graph.hpp"

namespace memlake::emulator {

struct ExecNode;

/// The nodes of one graph, in order. A child graph and the bodies of a conditional node are lists of their own.
struct ExecGraph {
  std::vector<ExecNode> nodes;
};

struct ExecNode {
  std::uint64_t source;  ///< the node of the graph it was made from
  NodeParams params;
  std::vector<std::size_t> before;  ///< places of its dependencies in the list
  bool is_enabled = true;
  std::vector<ExecGraph> bodies = {};
};

struct Exec {
  std::uint64_t handle;
  std::uint64_t graph;  ///< that it was made from
  std::uint64_t flags;
  Origin made_by;
  std::shared_ptr<const UserObjectReferences> objects;  ///< launches share it until they are done
  ExecGraph top;
  std::map<CUgraphConditionalHandle, unsigned> conditions;  ///< the values at a launch
  CompletionRef last = {};                                  ///< the last work of its last launch
  Clock after = {};                                         ///< the clock behind its last launch
  std::uint64_t launches = 0;

  [[nodiscard]] bool frees_on_launch() const { return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0; }
  [[nodiscard]] bool is_for_devices() const { return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0; }
};

/// Why a graph cannot be instantiated.
struct InstantiateFailure {
  CUgraphInstantiateResult result;
  CUgraphNode node;
};

/// Why an executable graph cannot be updated.
struct UpdateFailure {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  std::uint64_t node = 0;
  std::uint64_t from = 0;
  std::string sentence = {};
};

class GraphExecs {
 public:
  explicit GraphExecs(Graphs& graphs) : graphs_(graphs) {}

  /// Throws Refusal, after it has set `failure`.
  Exec& instantiate(Graph& graph, std::uint64_t flags, InstantiateFailure& failure, const Origin& origin);
  void destroy(Exec& exec);

  /// Throws 1 for a handle that does not exist.
  Exec& find(CUgraphExec handle);

  /// The node of the executable graph that was made from this node. Throws 1.
  static ExecNode& node_of(Exec& exec, const Node& node);

  /// Gives a node other parameters. Throws 1 if the change is not allowed on executable graphs.
  void set_params(Exec& exec, const Node& node, NodeParams params);

  /// Gives all nodes the parameters of a graph with the same nodes and edges. Changes nothing if it fails.
  UpdateFailure update(Exec& exec, const Graph& graph);

  [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Exec>>& all() const { return execs_; }

 private:
  Graphs& graphs_;
  std::map<std::uint64_t, std::unique_ptr<Exec>> execs_;
  std::uint64_t next_ = 1;
};

/// Makes the list of a graph. Throws Refusal if its edges have a cycle.
ExecGraph exec_graph(const Graph& graph, InstantiateFailure& failure);

inline CUgraphExec as_handle(const Exec& exec) { return reinterpret_cast<CUgraphExec>(exec.handle); }

}  // namespace memlake::emulator
