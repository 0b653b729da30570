// Nodes of graphs: adding them, and their parameters.

#include "entries/entry.hpp"
#include "process/graph_kernel.hpp"
#include "process/graph_params.hpp"

namespace memlake::emulator {

namespace {

/// Adds a node whose parameters `make` gives. Everything else is checked before, so that nothing is left if it throws.
template <class Make>
void add_node(Session& session, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
              const CUgraphEdgeData* data, size_t count, Make&& make) {
  required(node, "the node pointer");
  Graphs& graphs = session.driver.graphs;
  Graph& found = graphs.find(graph);
  const std::vector<Edge> before = graphs.dependencies(found, dependencies, data, count);
  NodeParams params = make(found);
  *node = as_handle(graphs.add(found, std::move(params), before, session.origin));
}

/// The parameters of a node of one kind. Throws 1 for a node of another kind.
template <class Kind>
Kind& params_of(Session& session, CUgraphNode node) {
  Node& found = session.driver.graphs.find_node(node);
  Kind* params = std::get_if<Kind>(&found.params);
  if (params == nullptr) invalid("the node is of kind ", name_of(type_of(found.params)));
  return *params;
}

void add_any_node(Session& session, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                  const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  add_node(session, node, graph, dependencies, data, count, [&](Graph& found) {
    return any_params(session.driver, found, required(params, "nodeParams"), session.origin);
  });
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    params->conditional.phGraph_out = params_of<ConditionalNode>(session, *node).handles.data();
}

void add_kernel_node(Session& session, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                     const CUDA_KERNEL_NODE_PARAMS& params) {
  add_node(session, node, graph, dependencies, nullptr, count,
           [&](Graph&) { return NodeParams(kernel_params(session.driver, params, session.origin)); });
}

KernelNode& kernel_of(Session& session, CUgraphNode node) {
  NodeParams& params = session.driver.graphs.find_node(node).params;
  as_kernel(params);
  return std::get<KernelNode>(params);
}

void set_kernel(Session& session, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params) {
  KernelNode& found = kernel_of(session, node);
  found = kernel_params(session.driver, params, session.origin, &found);
}

CUDA_MEMSET_NODE_PARAMS_v2 with_context(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context) {
  return {params.dst, params.pitch, params.value, params.elementSize, params.width, params.height, context};
}

}  // namespace

MEMLAKE_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                       CUgraphNodeParams* params) {
  return enter(Call::cuGraphAddNode, MEMLAKE_CALLER,
               [&](Session& session) { add_any_node(session, node, graph, dependencies, nullptr, count, params); });
}

MEMLAKE_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return enter(Call::cuGraphAddNode_v2, MEMLAKE_CALLER,
               [&](Session& session) { add_any_node(session, node, graph, dependencies, data, count, params); });
}

MEMLAKE_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return enter(Call::cuGraphNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    Node& found = session.driver.graphs.find_node(node);
    found.params =
        changed_params(session.driver, *found.graph, found.params, required(params, "nodeParams"), session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return enter(Call::cuGraphNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    *params = told_params(session.driver, session.driver.graphs.find_node(node).params);
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                            size_t count) {
  return enter(Call::cuGraphAddEmptyNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count, [](Graph&) { return NodeParams(EmptyNode{}); });
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return enter(Call::cuGraphAddKernelNode, MEMLAKE_CALLER, [&](Session& session) {
    add_kernel_node(session, node, graph, dependencies, count, without_kernel(required(params, "nodeParams")));
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                                size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Call::cuGraphAddKernelNode_v2, MEMLAKE_CALLER, [&](Session& session) {
    add_kernel_node(session, node, graph, dependencies, count, required(params, "nodeParams"));
  });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return enter(Call::cuGraphKernelNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    Driver& driver = session.driver;
    const KernelNode& found = kernel_of(session, node);
    const CUDA_KERNEL_NODE_PARAMS told = told_params(driver, found);
    // This struct has no place for a kernel of a library.
    const CUfunction function =
        told.func != nullptr ? told.func : as_handle(function_of(driver, found, session.origin));
    *params = {function,       told.gridDimX,  told.gridDimY,       told.gridDimZ,     told.blockDimX,
               told.blockDimY, told.blockDimZ, told.sharedMemBytes, told.kernelParams, told.extra};
  });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Call::cuGraphKernelNodeGetParams_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    *params = told_params(session.driver, kernel_of(session, node));
  });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return enter(Call::cuGraphKernelNodeSetParams, MEMLAKE_CALLER,
               [&](Session& session) { set_kernel(session, node, without_kernel(required(params, "nodeParams"))); });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Call::cuGraphKernelNodeSetParams_v2, MEMLAKE_CALLER,
               [&](Session& session) { set_kernel(session, node, required(params, "nodeParams")); });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, LaunchAttributeValue* value) {
  return enter(Call::cuGraphKernelNodeGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(value, "value_out");
    *value = attribute_of(kernel_of(session, node), attribute);
  });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int attribute,
                                                      const LaunchAttributeValue* value) {
  return enter(Call::cuGraphKernelNodeSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    set_attribute(session.driver, kernel_of(session, node), attribute, required(value, "value"), session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode target, CUgraphNode source) {
  return enter(Call::cuGraphKernelNodeCopyAttributes, MEMLAKE_CALLER, [&](Session& session) {
    KernelNode& to = kernel_of(session, target);
    const KernelNode& from = kernel_of(session, source);
    if (to.context != from.context) invalid("the two nodes have different contexts");
    // The only attribute that can be refused comes first.
    set_attribute(session.driver, to, kCooperativeAttribute, attribute_of(from, kCooperativeAttribute), session.origin);
    to.attributes = from.attributes;
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  return enter(Call::cuGraphAddMemcpyNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count,
             [&](Graph&) { return copy_params(session.driver, required(params, "copyParams"), context); });
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return enter(Call::cuGraphMemcpyNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    *params = params_of<CopyNode>(session, node).params;
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return enter(Call::cuGraphMemcpyNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    CopyNode& found = params_of<CopyNode>(session, node);
    const auto context = reinterpret_cast<CUcontext>(found.context);
    found = std::get<CopyNode>(copy_params(session.driver, required(params, "nodeParams"), context));
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                             size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return enter(Call::cuGraphAddMemsetNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count, [&](Graph&) {
      return fill_params(session.driver, with_context(required(params, "memsetParams"), context));
    });
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return enter(Call::cuGraphMemsetNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    const CUDA_MEMSET_NODE_PARAMS_v2& found = params_of<FillNode>(session, node).params;
    *params = {found.dst, found.pitch, found.value, found.elementSize, found.width, found.height};
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return enter(Call::cuGraphMemsetNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    FillNode& found = params_of<FillNode>(session, node);
    const CUDA_MEMSET_NODE_PARAMS_v2 wanted = with_context(required(params, "nodeParams"), found.params.ctx);
    found = std::get<FillNode>(fill_params(session.driver, wanted));
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return enter(Call::cuGraphAddHostNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count,
             [&](Graph&) { return host_params(required(params, "nodeParams")); });
  });
}

MEMLAKE_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return enter(Call::cuGraphHostNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "nodeParams");
    *params = params_of<HostNode>(session, node).params;
  });
}

MEMLAKE_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return enter(Call::cuGraphHostNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    params_of<HostNode>(session, node) = std::get<HostNode>(host_params(required(params, "nodeParams")));
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                                 size_t count, CUgraph child) {
  return enter(Call::cuGraphAddChildGraphNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count, [&](Graph& found) {
      return child_params(session.driver, found, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, session.origin);
    });
  });
}

MEMLAKE_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return enter(Call::cuGraphChildGraphNodeGetGraph, MEMLAKE_CALLER, [&](Session& session) {
    required(graph, "graph");
    *graph = as_handle(*params_of<ChildNode>(session, node).graph);
  });
}

#define MEMLAKE_EVENT_NODE(kind, is_record)                                                                         \
  MEMLAKE_EXPORT CUresult cuGraphAdd##kind##Node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, \
                                                 size_t count, CUevent event) {                                     \
    return enter(Call::cuGraphAdd##kind##Node, MEMLAKE_CALLER, [&](Session& session) {                              \
      add_node(session, node, graph, dependencies, nullptr, count,                                                  \
               [&](Graph&) { return event_params(session.driver, event, is_record); });                             \
    });                                                                                                             \
  }                                                                                                                 \
  MEMLAKE_EXPORT CUresult cuGraph##kind##NodeGetEvent(CUgraphNode node, CUevent* event) {                           \
    return enter(Call::cuGraph##kind##NodeGetEvent, MEMLAKE_CALLER, [&](Session& session) {                         \
      required(event, "event");                                                                                     \
      *event = reinterpret_cast<CUevent>(params_of<kind##Node>(session, node).event);                               \
    });                                                                                                             \
  }                                                                                                                 \
  MEMLAKE_EXPORT CUresult cuGraph##kind##NodeSetEvent(CUgraphNode node, CUevent event) {                            \
    return enter(Call::cuGraph##kind##NodeSetEvent, MEMLAKE_CALLER, [&](Session& session) {                         \
      auto& found = params_of<kind##Node>(session, node);                                                           \
      found = std::get<kind##Node>(event_params(session.driver, event, is_record));                                 \
    });                                                                                                             \
  }
MEMLAKE_EVENT_NODE(EventRecord, true)
MEMLAKE_EVENT_NODE(EventWait, false)
#undef MEMLAKE_EVENT_NODE

MEMLAKE_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                               size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return enter(Call::cuGraphAddMemAllocNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count, [&](Graph& found) {
      check_alloc_allowed(found);
      check_alloc_size(required(params, "nodeParams"));
      return alloc_params(session.driver, *params);
    });
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return enter(Call::cuGraphMemAllocNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(params, "params_out");
    *params = told_params(params_of<AllocNode>(session, node));
  });
}

MEMLAKE_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                              size_t count, CUdeviceptr address) {
  return enter(Call::cuGraphAddMemFreeNode, MEMLAKE_CALLER, [&](Session& session) {
    add_node(session, node, graph, dependencies, nullptr, count, [&](Graph& found) {
      check_alloc_allowed(found);
      return free_params(session.driver, found, address);
    });
  });
}

MEMLAKE_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return enter(Call::cuGraphMemFreeNodeGetParams, MEMLAKE_CALLER, [&](Session& session) {
    required(address, "dptr_out");
    *address = params_of<FreeNode>(session, node).range->address();
  });
}

MEMLAKE_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph,
                                                       CUcontext context, unsigned value, unsigned flags) {
  return enter(Call::cuGraphConditionalHandleCreate, MEMLAKE_CALLER, [&](Session& session) {
    required(handle, "pHandle_out");
    Driver& driver = session.driver;
    Graph& found = driver.graphs.find(graph);
    const Context* of = context == nullptr ? &driver.contexts.current() : driver.contexts.find(context);
    if (of == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no context ", static_cast<const void*>(context));
    *handle = driver.graphs.create_condition(found, *of, value, flags);
  });
}

}  // namespace memlake::emulator
