#include "process/graph_device_launch.hpp"

#include "process/graph_params.hpp"

namespace memlake::emulator {

namespace {

/// What the nodes of a graph and of its child graphs have in common.
struct Common {
  std::uint64_t context = 0;  ///< of all nodes so far; 0: there was none
  bool has_work = false;
};

/// The context in which a node runs; 0 for a node without one.
std::uint64_t context_of(const NodeParams& params) {
  if (const auto* copy = std::get_if<CopyNode>(&params)) return copy->context;
  if (const auto* fill = std::get_if<FillNode>(&params)) return reinterpret_cast<std::uint64_t>(fill->params.ctx);
  if (const auto* kernel = std::get_if<KernelNode>(&params)) return kernel->context;
  return 0;
}

void check(Driver& driver, const Graph& graph, Common& common, InstantiateFailure& failure) {
  for (const auto& node : graph.nodes) {
    if (const auto* child = std::get_if<ChildNode>(&node->params)) {
      check(driver, *child->graph, common, failure);
      continue;
    }
    if (const std::string reason = why_not_on_device(driver, node->params); !reason.empty()) {
      failure = {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, as_handle(*node)};
      invalid(reason);
    }
    const std::uint64_t context = context_of(node->params);
    if (common.context != 0 && context != 0 && context != common.context) {
      failure = {CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED, as_handle(*node)};
      invalid("the nodes of a graph for launches from a device must belong to one context");
    }
    if (context != 0) common.context = context;
    common.has_work = true;
  }
}

}  // namespace

std::string why_not_on_device(Driver& driver, const NodeParams& params) {
  const CUgraphNodeType type = type_of(params);
  if (type > CU_GRAPH_NODE_TYPE_MEMSET)
    return text("a graph for launches from a device cannot have a node of kind ", name_of(type));
  const auto* copy = std::get_if<CopyNode>(&params);
  if (copy == nullptr) return "";
  const NodeBoxes boxes = boxes_of(*copy, nullptr);
  for (const Box& box : {boxes.destination, boxes.source})
    if (is_pageable(driver, box.place, boxes.extent.span(box)))
      return text("a graph for launches from a device cannot copy pageable memory (", Hex{box.place.address}, ")");
  return "";
}

void check_device_launch(Driver& driver, const Graph& graph, InstantiateFailure& failure) {
  Common common;
  check(driver, graph, common, failure);
  if (common.has_work) return;
  failure = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, nullptr};
  invalid("a graph for launches from a device must have a kernel, copy or fill node");
}

}  // namespace memlake::emulator
