#include "graphs/graph_exec.hpp"

#include <algorithm>
#include <unordered_map>

#include "basics/handles.hpp"
#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kExecBase = 0x06E'0000'0000'0000;  // a distinct range; values are never reused
constexpr std::uint64_t kInstantiateFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

void collect_conditions(const Graph& graph, std::map<CUgraphConditionalHandle, unsigned>& values,
                        InstantiateFailure& failure) {
  for (const auto& [handle, condition] : graph.conditions) {
    if (!condition.has_node) {
      failure = {CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr};
      invalid("conditional handle ", Hex{handle}, " has no conditional node");
    }
    values[handle] = condition.value;
  }
  for (const auto& node : graph.nodes) {
    if (const auto* child = std::get_if<ChildNode>(&node->params)) collect_conditions(*child->graph, values, failure);
    if (const auto* conditional = std::get_if<ConditionalNode>(&node->params))
      for (const Graph* body : conditional->bodies) collect_conditions(*body, values, failure);
  }
}

ExecNode* find_node(ExecGraph& graph, std::uint64_t source) {
  for (ExecNode& node : graph.nodes) {
    if (node.source == source) return &node;
    for (ExecGraph& body : node.bodies)
      if (ExecNode* found = find_node(body, source)) return found;
  }
  return nullptr;
}

}  // namespace

ExecGraph exec_graph(const Graph& graph, InstantiateFailure& failure) {
  const std::vector<const Node*> order = in_order(graph.nodes);
  std::unordered_map<const Node*, std::size_t> places;
  for (const Node* node : order) places.emplace(node, places.size());
  if (order.size() < graph.nodes.size()) {
    const auto in_cycle =
        std::ranges::find_if(graph.nodes, [&](const auto& node) { return !places.contains(node.get()); });
    failure = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, as_handle(**in_cycle)};
    invalid("the edges of the graph have a cycle");
  }
  ExecGraph made;
  for (const Node* node : order) {
    ExecNode copied{.source = node->handle, .params = node->params, .before = {}};
    for (const Edge& edge : node->before) copied.before.push_back(places.at(edge.node));
    if (const auto* child = std::get_if<ChildNode>(&node->params))
      copied.bodies.push_back(exec_graph(*child->graph, failure));
    if (const auto* conditional = std::get_if<ConditionalNode>(&node->params))
      for (const Graph* body : conditional->bodies) copied.bodies.push_back(exec_graph(*body, failure));
    made.nodes.push_back(std::move(copied));
  }
  return made;
}

Exec& GraphExecs::instantiate(Graph& graph, std::uint64_t flags, InstantiateFailure& failure, const Origin& origin) {
  failure = {CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  if ((flags & ~kInstantiateFlags) != 0) invalid("flags ", flags, " are unknown");
  const std::uint64_t exclusive =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if ((flags & exclusive) == exclusive) invalid("AUTO_FREE_ON_LAUNCH and DEVICE_LAUNCH exclude each other");
  if (graph.owner != nullptr) invalid("the graph belongs to a node of another graph; instantiate that one");
  if (graph.captures > 0) invalid("a stream is capturing into the graph; end the capture first");
  if (graph.execs > 0 && graph.has_memory_nodes())
    invalid("a graph with allocation or free nodes can have only one executable graph at a time");
  if (graph.execs > 0 && graph.has_conditional_nodes())
    invalid("a graph with conditional nodes can have only one executable graph at a time");
  std::map<CUgraphConditionalHandle, unsigned> conditions;
  collect_conditions(graph, conditions, failure);
  ExecGraph top = exec_graph(graph, failure);
  const std::uint64_t handle = kExecBase + kHandleStep * next_++;
  auto exec = std::make_unique<Exec>(Exec{.handle = handle,
                                          .graph = graph.handle,
                                          .flags = flags,
                                          .made_by = origin,
                                          .objects = std::make_shared<UserObjectReferences>(graph.objects),
                                          .top = std::move(top),
                                          .conditions = std::move(conditions)});
  ++graph.execs;
  failure = {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
  return *execs_.emplace(handle, std::move(exec)).first->second;
}

void GraphExecs::destroy(Exec& exec) {
  if (Graph* graph = graphs_.find_or_null(exec.graph)) --graph->execs;
  const std::uint64_t handle = exec.handle;
  execs_.erase(handle);
}

Exec& GraphExecs::find(CUgraphExec handle) {
  const auto found = execs_.find(reinterpret_cast<std::uint64_t>(handle));
  if (found == execs_.end()) invalid("there is no executable graph ", static_cast<const void*>(handle), " (any more)");
  return *found->second;
}

ExecNode& GraphExecs::node_of(Exec& exec, const Node& node) {
  ExecNode* found = find_node(exec.top, node.handle);
  if (found == nullptr) invalid("the executable graph was not made from the graph of this node");
  return *found;
}

}  // namespace memlake::emulator
