// Executable graphs and the memory of graphs.

#include <cstring>

#include "entries/entry.hpp"
#include "process/graph_device_launch.hpp"
#include "process/graph_kernel.hpp"
#include "process/graph_launch.hpp"
#include "process/graph_params.hpp"

namespace memlake::emulator {

namespace {

/// The form before CUDA 12.0: the answer to a failure is a node.
void instantiate_old(Session& session, CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                     size_t log_size) {
  required(exec, "the executable graph");
  InstantiateFailure failure{};
  try {
    *exec = as_handle(session.driver.execs.instantiate(session.driver.graphs.find(graph), 0, failure, session.origin));
    if (log != nullptr && log_size > 0) *log = '\0';
  } catch (const Refusal& refusal) {
    if (error_node != nullptr) *error_node = failure.node;
    if (log != nullptr && log_size > 0) {
      std::strncpy(log, refusal.sentence.c_str(), log_size - 1);
      log[log_size - 1] = '\0';
    }
    throw;
  }
}

Exec& instantiate(Session& session, CUgraph handle, std::uint64_t flags, InstantiateFailure& failure) {
  Driver& driver = session.driver;
  Graph& graph = driver.graphs.find(handle);
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) check_device_launch(driver, graph, failure);
  return driver.execs.instantiate(graph, flags, failure, session.origin);
}

/// cuGraphUpload: it must be possible in the stream. The emulator needs no copy of the graph on a device.
void upload(Session& session, Stream& stream) { session.driver.streams.capture_rules.check_not_capturing(stream); }

void set_params(Session& session, CUgraphExec exec, CUgraphNode node, NodeParams params) {
  Driver& driver = session.driver;
  Exec& found = driver.execs.find(exec);
  const Node& source = driver.graphs.find_node(node);
  if (found.is_for_devices() && !std::holds_alternative<ChildNode>(params))
    if (const std::string reason = why_not_on_device(driver, params); !reason.empty()) invalid(reason);
  driver.execs.set_params(found, source, std::move(params));
}

void set_kernel(Session& session, CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params) {
  Driver& driver = session.driver;
  const NodeParams& now = GraphExecs::node_of(driver.execs.find(exec), driver.graphs.find_node(node)).params;
  set_params(session, exec, node, kernel_params(driver, params, session.origin, &as_kernel(now)));
}

/// The update of a graph that a device may launch.
UpdateFailure update_for_device(Driver& driver, Exec& exec, const Graph& graph) {
  InstantiateFailure broken{};
  try {
    check_device_launch(driver, graph, broken);
  } catch (const Refusal& refusal) {
    return {.result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
            .node = reinterpret_cast<std::uint64_t>(broken.node),
            .sentence = refusal.sentence};
  }
  return driver.execs.update(exec, graph);
}

CUresult update(Session& session, CUgraphExec exec, CUgraph graph, UpdateFailure& failure) {
  Driver& driver = session.driver;
  failure.result = CU_GRAPH_EXEC_UPDATE_ERROR;
  Exec& found = driver.execs.find(exec);
  const Graph& wanted = driver.graphs.find(graph);
  failure = found.is_for_devices() ? update_for_device(driver, found, wanted) : driver.execs.update(found, wanted);
  if (failure.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_SUCCESS;
  set_last_error(failure.sentence);
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

ExecNode& switchable(Session& session, CUgraphExec exec, CUgraphNode node) {
  Driver& driver = session.driver;
  ExecNode& found = GraphExecs::node_of(driver.execs.find(exec), driver.graphs.find_node(node));
  if (type_of(found.params) > CU_GRAPH_NODE_TYPE_MEMSET)
    invalid("only kernel, copy and fill nodes can be switched off; this one is of kind ",
            name_of(type_of(found.params)));
  return found;
}

GraphMemory& graph_memory(Session& session, CUdevice device) {
  return *session.driver.pools.graph_pool(session.driver.devices.find(device)).graphs;
}

}  // namespace

MEMLAKE_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                                           size_t log_size) {
  return enter(Call::cuGraphInstantiate, MEMLAKE_CALLER,
               [&](Session& session) { instantiate_old(session, exec, graph, error_node, log, log_size); });
}

MEMLAKE_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                                              size_t log_size) {
  return enter(Call::cuGraphInstantiate_v2, MEMLAKE_CALLER,
               [&](Session& session) { instantiate_old(session, exec, graph, error_node, log, log_size); });
}

MEMLAKE_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return enter(Call::cuGraphInstantiateWithFlags, MEMLAKE_CALLER, [&](Session& session) {
    required(exec, "the executable graph");
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
      invalid("the flag UPLOAD is only for cuGraphInstantiateWithParams, which has a stream for it");
    InstantiateFailure failure{};
    *exec = as_handle(instantiate(session, graph, flags, failure));
  });
}

MEMLAKE_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                     CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return enter(Call::cuGraphInstantiateWithParams, MEMLAKE_CALLER, [&](Session& session) {
    required(exec, "the executable graph");
    required(params, "instantiateParams");
    InstantiateFailure failure{CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
    Driver& driver = session.driver;
    try {
      if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        upload(session, driver.streams.find(params->hUploadStream));
      *exec = as_handle(instantiate(session, graph, params->flags, failure));
    } catch (const Refusal&) {
      params->result_out = failure.result;
      params->hErrNode_out = failure.node;
      throw;
    }
    params->result_out = failure.result;
    params->hErrNode_out = nullptr;
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return enter(Call::cuGraphExecGetFlags, MEMLAKE_CALLER, [&](Session& session) {
    required(flags, "flags");
    // The upload is done and is no property of the executable graph.
    *flags = session.driver.execs.find(exec).flags & ~CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return enter(Call::cuGraphExecDestroy, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.execs.destroy(session.driver.execs.find(exec)); });
}

MEMLAKE_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return enter(Call::cuGraphUpload, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.execs.find(exec);
    upload(session, session.driver.streams.find(stream));
  });
}

MEMLAKE_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return enter(Call::cuGraphLaunch, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    Exec& found = driver.execs.find(exec);
    Stream& queue = driver.streams.find(stream);
    driver.streams.capture_rules.check_not_capturing(queue);
    driver.chunks.reclaim();
    driver.pools.reclaim();
    launch_graph(driver, found, queue, session.origin);
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                          CUgraphExecUpdateResult* result) {
  return enter(Call::cuGraphExecUpdate, MEMLAKE_CALLER, [&](Session& session) {
    UpdateFailure failure;
    const CUresult code = update(session, exec, graph, failure);
    if (error_node != nullptr) *error_node = reinterpret_cast<CUgraphNode>(failure.node);
    if (result != nullptr) *result = failure.result;
    return code;
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return enter(Call::cuGraphExecUpdate_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(info, "resultInfo");
    UpdateFailure failure;
    const CUresult code = update(session, exec, graph, failure);
    *info = {failure.result, reinterpret_cast<CUgraphNode>(failure.node), reinterpret_cast<CUgraphNode>(failure.from)};
    return code;
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return enter(Call::cuGraphExecNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    Driver& driver = session.driver;
    const Node& found = driver.graphs.find_node(node);
    CUgraphNodeParams& wanted = required(params, "nodeParams");
    if (wanted.type == CU_GRAPH_NODE_TYPE_GRAPH)
      return set_params(session, exec, node,
                        ChildNode{&driver.graphs.find(wanted.graph.graph), wanted.graph.ownership});
    const NodeParams& now = GraphExecs::node_of(driver.execs.find(exec), found).params;
    set_params(session, exec, node, changed_params(driver, *found.graph, now, wanted, session.origin));
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                       const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return enter(Call::cuGraphExecKernelNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    set_kernel(session, exec, node, without_kernel(required(params, "nodeParams")));
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                          const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Call::cuGraphExecKernelNodeSetParams_v2, MEMLAKE_CALLER,
               [&](Session& session) { set_kernel(session, exec, node, required(params, "nodeParams")); });
}

MEMLAKE_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                                       CUcontext context) {
  return enter(Call::cuGraphExecMemcpyNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    set_params(session, exec, node, copy_params(session.driver, required(params, "copyParams"), context));
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                       const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return enter(Call::cuGraphExecMemsetNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    const CUDA_MEMSET_NODE_PARAMS& wanted = required(params, "memsetParams");
    set_params(session, exec, node,
               fill_params(session.driver, {wanted.dst, wanted.pitch, wanted.value, wanted.elementSize, wanted.width,
                                            wanted.height, context}));
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_HOST_NODE_PARAMS* params) {
  return enter(Call::cuGraphExecHostNodeSetParams, MEMLAKE_CALLER,
               [&](Session& session) { set_params(session, exec, node, host_params(required(params, "nodeParams"))); });
}

MEMLAKE_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return enter(Call::cuGraphExecChildGraphNodeSetParams, MEMLAKE_CALLER, [&](Session& session) {
    set_params(session, exec, node,
               ChildNode{&session.driver.graphs.find(child), CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE});
  });
}

MEMLAKE_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return enter(Call::cuGraphExecEventRecordNodeSetEvent, MEMLAKE_CALLER,
               [&](Session& session) { set_params(session, exec, node, event_params(session.driver, event, true)); });
}

MEMLAKE_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return enter(Call::cuGraphExecEventWaitNodeSetEvent, MEMLAKE_CALLER,
               [&](Session& session) { set_params(session, exec, node, event_params(session.driver, event, false)); });
}

MEMLAKE_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned is_enabled) {
  return enter(Call::cuGraphNodeSetEnabled, MEMLAKE_CALLER,
               [&](Session& session) { switchable(session, exec, node).is_enabled = is_enabled != 0; });
}

MEMLAKE_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* is_enabled) {
  return enter(Call::cuGraphNodeGetEnabled, MEMLAKE_CALLER, [&](Session& session) {
    required(is_enabled, "isEnabled");
    *is_enabled = switchable(session, exec, node).is_enabled ? 1 : 0;
  });
}

MEMLAKE_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return enter(Call::cuDeviceGraphMemTrim, MEMLAKE_CALLER,
               [&](Session& session) { graph_memory(session, device).trim(); });
}

MEMLAKE_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  return enter(Call::cuDeviceGetGraphMemAttribute, MEMLAKE_CALLER, [&](Session& session) {
    const GraphMemory& memory = graph_memory(session, device);
    cuuint64_t& out = required(static_cast<cuuint64_t*>(value), "value");
    switch (attribute) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        out = memory.used();
        return;
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        out = memory.used_high();
        return;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        out = memory.held();
        return;
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        out = memory.held_high();
        return;
    }
    invalid("graph memory attribute ", +attribute, " is unknown");
  });
}

MEMLAKE_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  return enter(Call::cuDeviceSetGraphMemAttribute, MEMLAKE_CALLER, [&](Session& session) {
    GraphMemory& memory = graph_memory(session, device);
    if (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
      invalid("graph memory attribute ", +attribute, " cannot be set; only the high-water marks (1 and 3) can");
    if (required(static_cast<cuuint64_t*>(value), "value") != 0)
      invalid("a high-water mark can only be reset, with the value 0");
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
      memory.reset_used_high();
    } else {
      memory.reset_held_high();
    }
  });
}

}  // namespace memlake::emulator
