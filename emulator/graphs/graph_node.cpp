#include "graphs/graph_node.hpp"

#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_map>

namespace memlake::emulator {

namespace {

struct TypeOf {
  CUgraphNodeType operator()(const EmptyNode&) const { return CU_GRAPH_NODE_TYPE_EMPTY; }
  CUgraphNodeType operator()(const CopyNode&) const { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  CUgraphNodeType operator()(const FillNode&) const { return CU_GRAPH_NODE_TYPE_MEMSET; }
  CUgraphNodeType operator()(const HostNode&) const { return CU_GRAPH_NODE_TYPE_HOST; }
  CUgraphNodeType operator()(const EventRecordNode&) const { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUgraphNodeType operator()(const EventWaitNode&) const { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUgraphNodeType operator()(const ChildNode&) const { return CU_GRAPH_NODE_TYPE_GRAPH; }
  CUgraphNodeType operator()(const AllocNode&) const { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  CUgraphNodeType operator()(const FreeNode&) const { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUgraphNodeType operator()(const ConditionalNode&) const { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
  CUgraphNodeType operator()(const KernelNode&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
  CUgraphNodeType operator()(const DeclaredNode&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
};

}  // namespace

KernelArguments::KernelArguments(const KernelImage& kernel, std::vector<char> bytes, bool is_extra)
    : bytes_(std::move(bytes)), size_(bytes_.size()), is_extra_(is_extra) {
  if (is_extra_) {
    const auto mark = [](std::uintptr_t number) { return reinterpret_cast<void*>(number); };
    pointers_ = {mark(kExtraBuffer), bytes_.data(), mark(kExtraSize), &size_, mark(kExtraEnd)};
  } else {
    for (const Parameter& parameter : kernel.parameters) pointers_.push_back(bytes_.data() + parameter.offset);
  }
}

CUgraphNodeType type_of(const NodeParams& params) { return std::visit(TypeOf{}, params); }

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return "EXT_SEMAS_SIGNAL";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "EXT_SEMAS_WAIT";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
  }
  return "UNKNOWN";
}

std::vector<const Node*> in_order(const std::vector<std::unique_ptr<Node>>& nodes) {
  std::unordered_map<const Node*, std::size_t> waiting;  // the number of dependencies that are not in the order yet
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> ready;  // handles: older ones first
  std::unordered_map<std::uint64_t, const Node*> by_handle;
  for (const auto& node : nodes) {
    waiting[node.get()] = node->before.size();
    by_handle[node->handle] = node.get();
    if (node->before.empty()) ready.push(node->handle);
  }
  std::vector<const Node*> order;
  while (!ready.empty()) {
    const Node* node = by_handle.at(ready.top());
    ready.pop();
    order.push_back(node);
    for (const Edge& edge : node->after)
      if (--waiting.at(edge.node) == 0) ready.push(edge.node->handle);
  }
  return order;
}

bool is_special(const CUgraphEdgeData& data) {
  const CUgraphEdgeData zero{};
  return std::memcmp(&data, &zero, sizeof zero) != 0;
}

}  // namespace memlake::emulator
