// Changes of executable graphs: of one node, or of all nodes by a graph with the same nodes and edges.

#include <algorithm>
#include <unordered_map>

#include "basics/refusal.hpp"
#include "graphs/graph_exec.hpp"

namespace memlake::emulator {

namespace {

bool is_plane(const CUDA_MEMCPY3D& params) { return params.Height > 1 || params.Depth > 1; }

/// Says why a copy node of an executable graph cannot become this one; "" if it can.
std::string why_not(const CopyNode& now, const CopyNode& wanted) {
  if (now.context != wanted.context) return "the context of a copy node cannot change";
  if (now.params.srcMemoryType != wanted.params.srcMemoryType ||
      now.params.dstMemoryType != wanted.params.dstMemoryType)
    return "the memory types of a copy node cannot change";
  if (is_plane(now.params) || is_plane(wanted.params)) return "only copies of one row can change";
  return "";
}

std::string why_not(const FillNode& now, const FillNode& wanted) {
  if (now.params.ctx != wanted.params.ctx) return "the context of a fill node cannot change";
  if (now.params.height != wanted.params.height) return "the number of rows of a fill node cannot change";
  if (now.params.height > 1 && (now.params.width != wanted.params.width || now.params.pitch != wanted.params.pitch ||
                                now.params.elementSize != wanted.params.elementSize))
    return "of a fill of several rows only the address and the value can change";
  return "";
}

std::string why_not(const KernelNode& now, const KernelNode& wanted) {
  return now.context == wanted.context ? "" : "the context of a kernel node's function cannot change";
}

std::string why_not(const NodeParams& now, const NodeParams& wanted) {
  if (const auto* copy = std::get_if<CopyNode>(&now)) return why_not(*copy, std::get<CopyNode>(wanted));
  if (const auto* fill = std::get_if<FillNode>(&now)) return why_not(*fill, std::get<FillNode>(wanted));
  if (const auto* kernel = std::get_if<KernelNode>(&now)) return why_not(*kernel, std::get<KernelNode>(wanted));
  return "";
}

bool is_same_memory(const NodeParams& now, const NodeParams& wanted) {
  if (const auto* alloc = std::get_if<AllocNode>(&now)) return alloc->range == std::get<AllocNode>(wanted).range;
  if (const auto* free = std::get_if<FreeNode>(&now)) return free->range == std::get<FreeNode>(wanted).range;
  return true;
}

/// A single change of a node keeps its attributes, so only the update by a graph asks for this.
bool is_same_cooperation(const NodeParams& now, const NodeParams& wanted) {
  const auto* kernel = std::get_if<KernelNode>(&now);
  return kernel == nullptr || kernel->shape.is_cooperative == std::get<KernelNode>(wanted).shape.is_cooperative;
}

/// Pairs the nodes of the two lists by their places, and checks that edges, kinds and parameters allow the update.
UpdateFailure compare(const ExecGraph& now, const ExecGraph& wanted) {
  const auto fails = [](CUgraphExecUpdateResult result, std::uint64_t node, std::string sentence) {
    return UpdateFailure{.result = result, .node = node, .sentence = std::move(sentence)};
  };
  if (now.nodes.size() != wanted.nodes.size())
    return fails(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0,
                 text("the executable graph has ", now.nodes.size(), " nodes, the graph ", wanted.nodes.size()));
  for (std::size_t i = 0; i < now.nodes.size(); ++i) {
    const ExecNode& old = now.nodes[i];
    const ExecNode& fresh = wanted.nodes[i];
    if (old.before.size() != fresh.before.size())
      return fails(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, fresh.source,
                   "a node has another number of dependencies");
    auto old_before = old.before;
    auto fresh_before = fresh.before;
    std::ranges::sort(old_before);
    std::ranges::sort(fresh_before);
    for (std::size_t k = 0; k < old_before.size(); ++k)
      if (old_before[k] != fresh_before[k])
        return UpdateFailure{.result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                             .node = fresh.source,
                             .from = wanted.nodes[fresh_before[k]].source,
                             .sentence = "a node has another dependency"};
    if (old.params.index() != fresh.params.index())
      return fails(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, fresh.source, "the kind of a node changed");
    if (!is_same_memory(old.params, fresh.params))
      return fails(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, fresh.source,
                   "the memory of an allocation or free node cannot change");
    if (std::string reason = why_not(old.params, fresh.params); !reason.empty())
      return fails(std::holds_alternative<KernelNode>(old.params)
                       ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                       : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                   fresh.source, std::move(reason));
    if (!is_same_cooperation(old.params, fresh.params))
      return fails(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, fresh.source,
                   "a cooperative kernel node must stay cooperative, and an ordinary one ordinary");
    if (old.bodies.size() != fresh.bodies.size())
      return fails(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, fresh.source, "a node has another number of bodies");
    for (std::size_t k = 0; k < old.bodies.size(); ++k)
      if (UpdateFailure failure = compare(old.bodies[k], fresh.bodies[k]); failure.result != 0) return failure;
  }
  return {};
}

void apply(ExecGraph& now, const ExecGraph& wanted) {
  for (std::size_t i = 0; i < now.nodes.size(); ++i) {
    ExecNode& old = now.nodes[i];
    if (old.bodies.empty()) old.params = wanted.nodes[i].params;
    for (std::size_t k = 0; k < old.bodies.size(); ++k) apply(old.bodies[k], wanted.nodes[i].bodies[k]);
  }
}

}  // namespace

void GraphExecs::set_params(Exec& exec, const Node& node, NodeParams params) {
  ExecNode& found = node_of(exec, node);
  if (found.params.index() != params.index())
    invalid("the node is of kind ", name_of(type_of(found.params)), ", the parameters are of kind ",
            name_of(type_of(params)));
  if (is_memory_node(params))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "an allocation or free node of an executable graph cannot change");
  if (const auto* child = std::get_if<ChildNode>(&params)) {
    InstantiateFailure ignored{};
    const ExecGraph wanted = exec_graph(*child->graph, ignored);
    if (const UpdateFailure failure = compare(found.bodies.front(), wanted); failure.result != 0)
      invalid("the child graph does not match: ", failure.sentence);
    apply(found.bodies.front(), wanted);
    return;
  }
  if (std::holds_alternative<ConditionalNode>(params))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "a conditional node of an executable graph cannot change");
  if (const std::string reason = why_not(found.params, params); !reason.empty()) invalid(reason);
  found.params = std::move(params);
}

UpdateFailure GraphExecs::update(Exec& exec, const Graph& graph) {
  if (graph.owner != nullptr)
    return {.result = CU_GRAPH_EXEC_UPDATE_ERROR, .sentence = "the graph belongs to a node of another graph"};
  InstantiateFailure ignored{};
  const ExecGraph wanted = exec_graph(graph, ignored);
  UpdateFailure failure = compare(exec.top, wanted);
  if (failure.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return failure;
  exec.objects = std::make_shared<UserObjectReferences>(graph.objects);
  apply(exec.top, wanted);
  for (const auto& [handle, condition] : graph.conditions)
    if (exec.conditions.contains(handle)) exec.conditions[handle] = condition.value;
  return failure;
}

}  // namespace memlake::emulator
