#pragma once

// Graphs: nodes and edges. A graph belongs to the program, to a capture that is under way, or to a node of another
// graph (a child graph, or a body of a conditional node).

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "graphs/graph_node.hpp"
#include "graphs/user_object.hpp"
#include "work/streams.hpp"

namespace memlake::emulator {

/// The variable of a conditional node. Only device code can change it.
struct Condition {
  std::uint64_t context;
  unsigned value;  ///< at the launch; 0 if the program gave none
  unsigned flags;
  bool has_node = false;
};

struct Graph {
  std::uint64_t handle;
  Node* owner;  ///< the node that owns it; null: the program or a capture
  Origin made_by;
  UserObjectReferences objects;
  std::vector<std::unique_ptr<Node>> nodes = {};  ///< in the order of their creation
  std::map<CUgraphConditionalHandle, Condition> conditions = {};
  std::uint64_t cloned_from = 0;  ///< the graph of cuGraphClone; 0: none
  unsigned execs = 0;             ///< executable graphs made from it
  unsigned captures = 0;          ///< captures into it that are under way

  /// Whether it or a child has an allocation or free node.
  [[nodiscard]] bool has_memory_nodes() const;
  [[nodiscard]] bool has_conditional_nodes() const;
};

class Graphs {
 public:
  explicit Graphs(UserObjects& objects) : objects_(objects) {}

  Graph& create(const Origin& origin);
  /// Throws 1 for a graph that a node or a capture owns.
  void destroy(Graph& graph);
  /// Destroys the graph of a capture that failed.
  void drop(Graph& graph);
  Graph& clone(const Graph& original, const Origin& origin);

  /// Throw 1 for a handle that does not exist.
  Graph& find(CUgraph handle);
  Node& find_node(CUgraphNode handle);
  [[nodiscard]] Graph* find_or_null(std::uint64_t handle);
  [[nodiscard]] Node* find_node_or_null(std::uint64_t handle);
  /// The node of a clone that stands for the node of the original.
  Node& find_in_clone(const Node& original, Graph& clone);

  /// The dependencies of a node to be, checked: nodes of this graph, each once.
  std::vector<Edge> dependencies(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                 std::size_t count);

  /// Adds a node. pre: the parameters and dependencies are checked.
  Node& add(Graph& graph, NodeParams params, const std::vector<Edge>& before, const Origin& origin);
  /// Makes a graph that a node to be owns: an empty body, a copy of a child, or the child itself.
  Graph& make_body(const Origin& origin);
  void give(Graph& child, Node& owner);

  void add_edges(Graph& graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                 std::size_t count);
  void remove_edges(Graph& graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                    std::size_t count);
  void destroy_node(Node& node);

  CUgraphConditionalHandle create_condition(Graph& graph, const Context& context, unsigned value, unsigned flags);
  /// The condition of a handle that belongs to the graph or to a graph around it. Throws 1.
  Condition& find_condition(Graph& graph, CUgraphConditionalHandle handle);

  /// The range of an allocation node at an address; null if there is none.
  [[nodiscard]] GraphRangeRef find_range(std::uint64_t address) const;

  [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Graph>>& all() const { return graphs_; }

 private:
  Graph& make(Node* owner, const Origin& origin);
  void erase(Graph& graph);
  void erase_children(const NodeParams& params);
  NodeParams copy(const NodeParams& params, const Origin& origin);
  void copy_nodes(const Graph& original, Graph& target, const Origin& origin);
  void check_mutable(const Graph& graph, const char* what) const;

  UserObjects& objects_;
  std::map<std::uint64_t, std::unique_ptr<Graph>> graphs_;
  std::unordered_map<std::uint64_t, Node*> nodes_;
  std::map<std::uint64_t, std::weak_ptr<GraphRange>> ranges_;  // by address
  std::uint64_t next_graph_ = 1;
  std::uint64_t next_node_ = 1;
  std::uint64_t next_condition_ = 1;
};

inline CUgraph as_handle(const Graph& graph) { return reinterpret_cast<CUgraph>(graph.handle); }

/// A DOT file of the graph. Throws 304 if the file cannot be written.
void write_dot(const Graph& graph, const std::string& path, unsigned flags);

}  // namespace memlake::emulator
