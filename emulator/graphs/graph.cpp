#include "graphs/graph.hpp"

#include <algorithm>
#include <utility>

#include "basics/handles.hpp"
#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

// Distinct ranges; values are never reused.
constexpr std::uint64_t kGraphBase = 0x064'0000'0000'0000;
constexpr std::uint64_t kNodeBase = 0x06A'0000'0000'0000;
constexpr std::uint64_t kConditionBase = 0x06C'0000'0000'0000;

/// Calls `body` with the graphs that the node owns.
template <class Body>
void for_each_child(const NodeParams& params, Body&& body) {
  if (const auto* child = std::get_if<ChildNode>(&params)) body(*child->graph);
  if (const auto* conditional = std::get_if<ConditionalNode>(&params))
    for (Graph* graph : conditional->bodies) body(*graph);
}

template <class Matches>
bool has_nodes(const Graph& graph, Matches&& matches) {
  return std::ranges::any_of(graph.nodes, [&](const auto& node) {
    bool found = matches(node->params);
    for_each_child(node->params, [&](const Graph& child) { found = found || has_nodes(child, matches); });
    return found;
  });
}

void check_edge_data(const CUgraphEdgeData* data, std::size_t count) {
  for (std::size_t i = 0; data != nullptr && i < count; ++i)
    if (is_special(data[i]))
      invalid("the data of edge ", i,
              " is not zero; the emulator has only ordinary edges (CUDA has others behind kernel nodes)");
}

auto find_edge(std::vector<Edge>& edges, const Node& node) { return std::ranges::find(edges, &node, &Edge::node); }

}  // namespace

bool Graph::has_memory_nodes() const {
  return has_nodes(*this, [](const NodeParams& params) { return is_memory_node(params); });
}

bool Graph::has_conditional_nodes() const {
  return has_nodes(*this, [](const NodeParams& params) { return std::holds_alternative<ConditionalNode>(params); });
}

Graph& Graphs::make(Node* owner, const Origin& origin) {
  const std::uint64_t handle = kGraphBase + kHandleStep * next_graph_++;
  auto graph = std::make_unique<Graph>(
      Graph{.handle = handle, .owner = owner, .made_by = origin, .objects = UserObjectReferences(objects_)});
  return *graphs_.emplace(handle, std::move(graph)).first->second;
}

Graph& Graphs::create(const Origin& origin) { return make(nullptr, origin); }

Graph& Graphs::make_body(const Origin& origin) { return make(nullptr, origin); }

void Graphs::give(Graph& child, Node& owner) { child.owner = &owner; }

Graph* Graphs::find_or_null(std::uint64_t handle) {
  const auto found = graphs_.find(handle);
  return found == graphs_.end() ? nullptr : found->second.get();
}

Graph& Graphs::find(CUgraph handle) {
  Graph* found = find_or_null(reinterpret_cast<std::uint64_t>(handle));
  if (found == nullptr) invalid("there is no graph ", static_cast<const void*>(handle), " (any more)");
  return *found;
}

Node* Graphs::find_node_or_null(std::uint64_t handle) {
  const auto found = nodes_.find(handle);
  return found == nodes_.end() ? nullptr : found->second;
}

Node& Graphs::find_node(CUgraphNode handle) {
  Node* found = find_node_or_null(reinterpret_cast<std::uint64_t>(handle));
  if (found == nullptr) invalid("there is no graph node ", static_cast<const void*>(handle), " (any more)");
  return *found;
}

void Graphs::check_mutable(const Graph& graph, const char* what) const {
  if (graph.has_memory_nodes()) invalid(what, " of a graph with allocation or free nodes cannot be removed");
}

void Graphs::destroy(Graph& graph) {
  if (graph.owner != nullptr) invalid("the graph belongs to a node of another graph and ends with it");
  if (graph.captures > 0) invalid("a stream is capturing into the graph; end the capture first");
  erase(graph);
}

void Graphs::drop(Graph& graph) { erase(graph); }

void Graphs::erase(Graph& graph) {
  for (const auto& node : graph.nodes) {
    erase_children(node->params);
    nodes_.erase(node->handle);
    if (auto* free = std::get_if<FreeNode>(&node->params)) free->range->freed_by.erase(graph.handle);
  }
  const std::uint64_t handle = graph.handle;
  graphs_.erase(handle);
  std::erase_if(ranges_, [](const auto& entry) { return entry.second.expired(); });
}

void Graphs::erase_children(const NodeParams& params) {
  for_each_child(params, [&](Graph& child) { erase(child); });
}

std::vector<Edge> Graphs::dependencies(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                       std::size_t count) {
  std::vector<Edge> edges;
  if (count > 0) required(nodes, "dependencies");
  check_edge_data(data, count);
  for (std::size_t i = 0; i < count; ++i) {
    Node& node = find_node(nodes[i]);
    if (node.graph != &graph) invalid("dependency ", i, " is a node of another graph");
    if (find_edge(edges, node) != edges.end()) invalid("dependency ", i, " is listed twice");
    edges.push_back({&node, {}});
  }
  return edges;
}

Node& Graphs::add(Graph& graph, NodeParams params, const std::vector<Edge>& before, const Origin& origin) {
  const std::uint64_t handle = kNodeBase + kHandleStep * next_node_++;
  auto made = std::make_unique<Node>(
      Node{.handle = handle, .graph = &graph, .params = std::move(params), .made_by = origin, .before = before});
  Node& node = *graph.nodes.emplace_back(std::move(made));
  nodes_.emplace(handle, &node);
  for (const Edge& edge : before) edge.node->after.push_back({&node, edge.data});
  for_each_child(node.params, [&](Graph& child) { give(child, node); });
  if (const auto* alloc = std::get_if<AllocNode>(&node.params)) {
    ranges_[alloc->range->address()] = alloc->range;
    alloc->range->owner = graph.handle;
  }
  if (const auto* free = std::get_if<FreeNode>(&node.params)) free->range->freed_by.insert(graph.handle);
  return node;
}

void Graphs::add_edges(Graph& graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                       std::size_t count) {
  if (count > 0) {
    required(from, "from");
    required(to, "to");
  }
  check_edge_data(data, count);
  std::vector<std::pair<Node*, Node*>> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    Node& first = find_node(from[i]);
    Node& second = find_node(to[i]);
    if (first.graph != &graph || second.graph != &graph) invalid("edge ", i, " has a node of another graph");
    if (&first == &second) invalid("edge ", i, " leads from a node to itself");
    const std::pair pair{&first, &second};
    if (find_edge(second.before, first) != second.before.end() || std::ranges::find(pairs, pair) != pairs.end())
      invalid("edge ", i, " exists already");
    pairs.push_back(pair);
  }
  for (const auto& [first, second] : pairs) {
    second->before.push_back({first, {}});
    first->after.push_back({second, {}});
  }
}

void Graphs::remove_edges(Graph& graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                          std::size_t count) {
  if (count > 0) {
    required(from, "from");
    required(to, "to");
    check_mutable(graph, "edges");
  }
  check_edge_data(data, count);
  std::vector<std::pair<Node*, Node*>> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    Node& first = find_node(from[i]);
    Node& second = find_node(to[i]);
    const std::pair pair{&first, &second};
    if (second.graph != &graph || find_edge(second.before, first) == second.before.end() ||
        std::ranges::find(pairs, pair) != pairs.end())
      invalid("edge ", i, " does not exist in the graph");
    pairs.push_back(pair);
  }
  for (const auto& [first, second] : pairs) {
    second->before.erase(find_edge(second->before, *first));
    first->after.erase(find_edge(first->after, *second));
  }
}

void Graphs::destroy_node(Node& node) {
  Graph& graph = *node.graph;
  check_mutable(graph, "nodes");
  if (graph.captures > 0) invalid("a stream is capturing into the graph; its nodes cannot be removed now");
  for (const Edge& edge : node.before) edge.node->after.erase(find_edge(edge.node->after, node));
  for (const Edge& edge : node.after) edge.node->before.erase(find_edge(edge.node->before, node));
  erase_children(node.params);
  nodes_.erase(node.handle);
  std::erase_if(graph.nodes, [&](const auto& owned) { return owned.get() == &node; });
}

NodeParams Graphs::copy(const NodeParams& params, const Origin& origin) {
  if (const auto* child = std::get_if<ChildNode>(&params)) {
    Graph& graph = make_body(origin);
    graph.objects.add(child->graph->objects);
    copy_nodes(*child->graph, graph, origin);
    return ChildNode{&graph, child->ownership};
  }
  return params;
}

void Graphs::copy_nodes(const Graph& original, Graph& target, const Origin& origin) {
  std::unordered_map<const Node*, Node*> made;
  for (const auto& node : original.nodes) {
    Node& copied = add(target, copy(node->params, origin), {}, origin);
    copied.cloned_from = node->handle;
    made[node.get()] = &copied;
  }
  for (const auto& node : original.nodes)
    for (const Edge& edge : node->before) {
      made.at(node.get())->before.push_back({made.at(edge.node), edge.data});
      made.at(edge.node)->after.push_back({made.at(node.get()), edge.data});
    }
}

Graph& Graphs::clone(const Graph& original, const Origin& origin) {
  if (original.has_memory_nodes()) invalid("a graph with allocation or free nodes cannot be cloned");
  if (original.has_conditional_nodes()) invalid("a graph with conditional nodes cannot be cloned");
  Graph& made = create(origin);
  made.cloned_from = original.handle;
  made.objects.add(original.objects);
  copy_nodes(original, made, origin);
  return made;
}

Node& Graphs::find_in_clone(const Node& original, Graph& clone) {
  for (const auto& node : clone.nodes)
    if (node->cloned_from == original.handle) return *node;
  invalid("the graph is no clone of the node's graph, or the node was removed from it");
}

CUgraphConditionalHandle Graphs::create_condition(Graph& graph, const Context& context, unsigned value,
                                                  unsigned flags) {
  if ((flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) != 0) invalid("flags must be 0 or 1 (ASSIGN_DEFAULT)");
  const CUgraphConditionalHandle handle = kConditionBase + kHandleStep * next_condition_++;
  const unsigned at_launch = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0 ? value : 0;
  graph.conditions.emplace(handle, Condition{.context = context.handle, .value = at_launch, .flags = flags});
  return handle;
}

Condition& Graphs::find_condition(Graph& graph, CUgraphConditionalHandle handle) {
  for (Graph* at = &graph; at != nullptr; at = at->owner == nullptr ? nullptr : at->owner->graph)
    if (const auto found = at->conditions.find(handle); found != at->conditions.end()) return found->second;
  invalid("conditional handle ", Hex{handle}, " does not belong to the graph");
}

GraphRangeRef Graphs::find_range(std::uint64_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  GraphRangeRef range = std::prev(next)->second.lock();
  return range != nullptr && address - range->address() < range->extent() ? range : nullptr;
}

}  // namespace memlake::emulator
